#include "retrieval/item_index.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <hnswlib/hnswlib.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "retrieval/score_blocks.h"
#include <dnnl.hpp>

#include "base/check.h"
#include "base/log.h"
#include "nn/cpu/compute_threads.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

constexpr size_t kQueriesAtOnce = 32;  // Their block of scores stays in a core's second cache.
constexpr float kMostRounded = 127;

// The best items of those that were offered, in ascending order of positions.
class BestItems {
 public:
  BestItems(size_t k, const ItemFilter& filter) : k_(k), filter_(filter) {}

  // scores: of the items from number `first` on.
  void Offer(size_t first, std::span<const float> scores) {
    constexpr size_t kTogether = 64;
    for (size_t begin = 0; begin < scores.size(); begin += kTogether) {
      const std::span<const float> some =
          scores.subspan(begin, std::min(kTogether, scores.size() - begin));
      // Few items pass the least score that counts. A loop without branches is vectorised.
      uint32_t passes = 0;
      for (const float score : some) passes |= score > least_ ? 1U : 0U;
      if (passes != 0) OfferEach(static_cast<uint32_t>(first + begin), some);
    }
  }

  // Returns the best items, the best first. Must be the last call.
  std::vector<FoundItem> Take() {
    std::ranges::sort(items_, IsBetter);
    return std::move(items_);
  }

 private:
  void OfferEach(uint32_t first, std::span<const float> scores) {
    for (size_t i = 0; i < scores.size(); ++i) {
      const FoundItem item{first + static_cast<uint32_t>(i), scores[i]};
      if (!(item.score > least_) || !std::isfinite(item.score)) continue;
      if (!filter_.Admits(item.position)) continue;
      if (items_.size() == k_) {
        std::ranges::pop_heap(items_, IsBetter);
        items_.pop_back();
      }
      items_.push_back(item);
      std::ranges::push_heap(items_, IsBetter);
      if (items_.size() == k_) least_ = items_.front().score;
    }
  }

  const size_t k_;
  const ItemFilter& filter_;
  // A later item must have a higher score. Its position is higher, so an equal score is worse.
  float least_ = -std::numeric_limits<float>::infinity();
  std::vector<FoundItem> items_;  // A heap; the worst item is first.
};

// Sets to = the vector in steps of the returned number, between -127 and 127.
float RoundVector(std::span<const float> from, int8_t* to) {
  float most = 0;
  for (const float value : from) most = std::max(most, std::abs(value));
  const float scale = most / kMostRounded;
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = scale > 0 ? static_cast<int8_t>(std::lrint(from[i] / scale)) : int8_t{0};
  }
  return scale;
}

}  // namespace

bool ItemFilter::Admits(uint32_t position) const {
  if (!allowed.empty() && (allowed[position / 64] >> (position % 64) & 1) == 0) return false;
  return !std::ranges::binary_search(excluded, position);
}

// Items by their vectors. Items without a row in the model often have equal ones.
class EqualItems {
 public:
  explicit EqualItems(MatrixView<const float> vectors) {
    absl::flat_hash_map<std::string_view, uint32_t> groups;
    groups.reserve(vectors.rows());
    for (uint32_t item = 0; item < vectors.rows(); ++item) {
      const std::span<const float> vector = vectors.row(item);
      const std::string_view bytes(reinterpret_cast<const char*>(vector.data()),
                                   vector.size_bytes());
      const auto [group, is_new] = groups.try_emplace(bytes, static_cast<uint32_t>(groups_.size()));
      if (is_new) groups_.emplace_back();
      groups_[group->second].push_back(item);
    }
  }

  size_t size() const { return groups_.size(); }
  // The positions of a group's items, ascending; not empty.
  const std::vector<uint32_t>& of(size_t group) const { return groups_[group]; }

 private:
  std::vector<std::vector<uint32_t>> groups_;
};

// A graph of neighbours; see ItemIndex. Equal vectors are one node: the links of many equal nodes
// would lead to each other only.
class ItemIndex::Graph {
 public:
  Graph(MatrixView<const float> vectors, const Options& options)
      : items_(vectors),
        space_(vectors.columns()),
        graph_(&space_, items_.size(), options.graph_links, options.graph_effort) {
    graph_.setEf(options.search_effort);
  }

  // Errors: CANCELLED.
  Status Add(MatrixView<const float> vectors, const Options& options) {
    std::atomic<size_t> next = 0;
    std::atomic<bool> fails = false;
    const auto add = [&] {
      try {
        while (!fails && (options.ends == nullptr || !*options.ends)) {
          const size_t node = next++;
          if (node >= items_.size()) return;
          graph_.addPoint(vectors.row(items_.of(node).front()).data(), node);
        }
      } catch (const std::exception&) {  // It lacks memory.
        fails = true;
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (uint32_t i = 1; i < options.threads; ++i) helpers.emplace_back(add);
      add();
    }
    if (fails) return absl::ResourceExhaustedError("no memory for the graph of items");
    if (next < items_.size()) return absl::CancelledError("the graph of items is not needed");
    return absl::OkStatus();
  }

  uint64_t bytes() const { return graph_.max_elements_ * graph_.size_data_per_element_; }

  void Search(std::span<const float> query, size_t count, const ItemFilter& filter,
              std::vector<FoundItem>& found) const {
    auto nearest = graph_.searchKnn(query.data(), count);
    for (; !nearest.empty(); nearest.pop()) {
      size_t left = count;
      for (const uint32_t position : items_.of(nearest.top().second)) {
        if (left == 0) break;
        if (!filter.Admits(position)) continue;
        found.push_back({.position = position});
        --left;
      }
    }
  }

 private:
  const EqualItems items_;
  hnswlib::InnerProductSpace space_;
  hnswlib::HierarchicalNSW<float> graph_;
};

ItemIndex::ItemIndex(std::vector<float> vectors, size_t dim)
    : dim_(dim), vectors_(std::move(vectors)) {}
ItemIndex::~ItemIndex() = default;
ItemIndex::ItemIndex(ItemIndex&&) noexcept = default;
ItemIndex& ItemIndex::operator=(ItemIndex&&) noexcept = default;

StatusOr<ItemIndex> ItemIndex::Create(std::vector<float> vectors, size_t dim,
                                      const Options& options) {
  SIMURGH_CHECK_LT(0U, dim);
  SIMURGH_CHECK_EQ(vectors.size() % dim, 0U);
  SIMURGH_CHECK_LE(vectors.size() / dim, uint64_t{UINT32_MAX});
  ItemIndex index(std::move(vectors), dim);
  for (size_t item = 0; item < index.size(); ++item) {
    if (AllFinite(index.vectors().row(item))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the vector of item ", item, " (from 0) is not finite"));
  }
  try {
    if (options.precision == Precision::kInt8) index.Round();
    if (options.graph_from > 0 && index.size() >= options.graph_from) {
      auto graph = std::make_unique<Graph>(index.vectors(), options);
      SIMURGH_RETURN_IF_ERROR(graph->Add(index.vectors(), options));
      index.graph_ = std::move(graph);
      SIMURGH_RETURN_IF_ERROR(index.CheckGraph());
    }
  } catch (const std::exception&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the index of ", index.size(), " items"));
  }
  return index;
}

Status ItemIndex::CheckGraph() {
  constexpr size_t kQueries = 64;
  constexpr size_t kBest = 20;
  constexpr double kLeastShare = 0.9;
  if (kBest * kCandidates >= size()) return absl::OkStatus();  // Searches do not use it.
  const size_t count = std::min(kQueries, size());
  std::vector<float> queries;
  for (size_t query = 0; query < count; ++query) {
    const std::span<const float> vector = vectors().row(query * size() / count);
    queries.insert(queries.end(), vector.begin(), vector.end());
  }
  const MatrixView<const float> view{queries.data(), count, dim_};
  SIMURGH_ASSIGN_OR_RETURN(const auto found, Search(view, kBest));
  std::vector<std::vector<FoundItem>> best(count);
  cpu::SetComputeThreads(1);
  SIMURGH_RETURN_IF_ERROR(SearchExactly(view, kBest, {}, best));
  size_t hits = 0;
  size_t all = 0;
  for (size_t query = 0; query < count; ++query) {
    if (best[query].empty()) continue;
    // Items of the same score are as good.
    const float least = best[query].back().score - 1e-5F * std::abs(best[query].back().score);
    all += best[query].size();
    hits += static_cast<size_t>(std::ranges::count_if(
        found[query], [&](const FoundItem& item) { return item.score >= least; }));
  }
  const double share = all == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(all);
  if (share >= kLeastShare) return absl::OkStatus();
  spdlog::warn(
      "the graph of items finds {:.0f} % of the best items; all items are searched exactly instead",
      100 * share);
  graph_ = nullptr;
  return absl::OkStatus();
}

void ItemIndex::Round() {
  rounded_.resize(vectors_.size());
  scales_.resize(size());
  for (size_t item = 0; item < size(); ++item) {
    scales_[item] = RoundVector(vectors().row(item), rounded_.data() + item * dim_);
  }
}

uint64_t ItemIndex::bytes() const {
  return (vectors_.size() + scales_.size()) * sizeof(float) + rounded_.size() +
         (graph_ == nullptr ? 0 : graph_->bytes());
}

StatusOr<std::vector<std::vector<FoundItem>>> ItemIndex::Search(MatrixView<const float> queries,
                                                                size_t k,
                                                                const ItemFilter& filter) const {
  SIMURGH_CHECK_EQ(queries.columns(), dim_);
  std::vector<std::vector<FoundItem>> found(queries.rows());
  for (size_t query = 0; query < queries.rows(); ++query) {
    if (AllFinite(queries.row(query))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the vector of query ", query, " (from 0) is not finite"));
  }
  k = std::min(k, size());
  if (k == 0) return found;
  // A search of the graph may find excluded items; beyond its effort an exact one costs no more.
  const size_t wanted = k + filter.excluded.size();
  if (graph_ != nullptr && filter.allowed.empty() && wanted * kCandidates < size()) {
    for (size_t query = 0; query < queries.rows(); ++query) {
      graph_->Search(queries.row(query), wanted, filter, found[query]);
      Rerank(queries.row(query), k, found[query]);
    }
    return found;
  }
  cpu::SetComputeThreads(1);
  for (size_t first = 0; first < queries.rows(); first += kQueriesAtOnce) {
    const size_t count = std::min(kQueriesAtOnce, queries.rows() - first);
    const auto search = rounded_.empty() ? &ItemIndex::SearchExactly : &ItemIndex::SearchRounded;
    SIMURGH_RETURN_IF_ERROR((this->*search)(queries.Rows(first, count), k, filter,
                                            std::span(found).subspan(first, count)));
  }
  return found;
}

Status ItemIndex::SearchExactly(MatrixView<const float> queries, size_t k, const ItemFilter& filter,
                                std::span<std::vector<FoundItem>> found) const {
  std::vector<BestItems> best(queries.rows(), BestItems(k, filter));
  SIMURGH_RETURN_IF_ERROR(
      ScoreBlocks(queries, vectors(), [&](size_t first, MatrixView<float> scores) {
        for (size_t query = 0; query < best.size(); ++query) {
          best[query].Offer(first, scores.row(query));
        }
      }));
  for (size_t query = 0; query < best.size(); ++query) found[query] = best[query].Take();
  return absl::OkStatus();
}

Status ItemIndex::SearchRounded(MatrixView<const float> queries, size_t k, const ItemFilter& filter,
                                std::span<std::vector<FoundItem>> found) const {
  // The scale of a query does not change the order of its items.
  std::vector<int8_t> rounded(queries.rows() * dim_);
  for (size_t query = 0; query < queries.rows(); ++query) {
    RoundVector(queries.row(query), rounded.data() + query * dim_);
  }
  const size_t count = std::min(k * kCandidates, size());
  std::vector<BestItems> best(queries.rows(), BestItems(count, filter));
  const size_t most = std::min(ItemsOfBlock(dim_), size());
  thread_local std::vector<int32_t> products;
  thread_local std::vector<float> scores;
  products.resize(std::max(products.size(), queries.rows() * most));
  scores.resize(std::max(scores.size(), most));
  for (size_t first = 0; first < size(); first += most) {
    const size_t items = std::min(most, size() - first);
    const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
    constexpr int32_t kNoOffset = 0;
    const dnnl::status status =
        dnnl::gemm_s8s8s32('N', 'T', 'F', dim(queries.rows()), dim(items), dim(dim_), 1.0F,
                           rounded.data(), dim(dim_), 0, rounded_.data() + first * dim_, dim(dim_),
                           0, 0.0F, products.data(), dim(items), &kNoOffset);
    if (status != dnnl::status::success) {
      return absl::InternalError(
          absl::StrCat("oneDNN's product of int8 failed: ", static_cast<int>(status)));
    }
    for (size_t query = 0; query < best.size(); ++query) {
      const int32_t* const row = products.data() + query * items;
      for (size_t i = 0; i < items; ++i) {
        scores[i] = static_cast<float>(row[i]) * scales_[first + i];
      }
      best[query].Offer(first, std::span(scores).first(items));
    }
  }
  for (size_t query = 0; query < best.size(); ++query) {
    found[query] = best[query].Take();
    Rerank(queries.row(query), k, found[query]);
  }
  return absl::OkStatus();
}

void ItemIndex::Rerank(std::span<const float> query, size_t k,
                       std::vector<FoundItem>& found) const {
  for (FoundItem& item : found) {
    const std::span<const float> vector = vectors().row(item.position);
    double sum = 0;
    for (size_t i = 0; i < dim_; ++i) sum += double{query[i]} * double{vector[i]};
    item.score = static_cast<float>(sum);
  }
  std::erase_if(found, [](const FoundItem& item) { return !std::isfinite(item.score); });
  std::ranges::sort(found, IsBetter);
  found.resize(std::min(found.size(), k));
}

}  // namespace simurgh
