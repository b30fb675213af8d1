// Time of searches for the best items. See --help.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "retrieval/item_index.h"
#include "retrieval/score_blocks.h"

#include "base/check.h"
#include "bench/support/flags.h"
#include "nn/cpu/compute_threads.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_retrieval: searches for the best items on one core

Usage: bench_retrieval [options]

Searches for the items of the highest products with random users. Items are vectors of length 1 in
groups, like similar items. Kinds of searches take turns. product: oneDNN's products of all
items alone, without a search. ratio: time of `product` over time of the search. recall: share of
the exact search's items.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

struct Options {
  size_t items;
  size_t dim;
  size_t k;
  size_t turns;
  size_t graph_items;
  std::vector<size_t> queries;
  bool json;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_retrieval", kAbout);
  flags.Number("items", options.items, 1, 1e8, {"1000000", "50000"}, "items of exact searches");
  flags.Number("graph-items", options.graph_items, 0, 1e8, {"100000", "5000"},
               "items of a graph of neighbours; 0: none");
  flags.Number("dim", options.dim, 1, 4'096, {"64"}, "numbers of a vector");
  flags.Number("k", options.k, 1, 10'000, {"100"}, "items that a search finds");
  flags.Numbers("queries", options.queries, 1, 4'096, {"1,8,32"}, "users of a search");
  flags.Number("turns", options.turns, 1, 1'000, {"9", "3"}, "repetitions of each search");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

// Vectors of length 1 around random centres.
std::vector<float> Vectors(size_t count, size_t dim, unsigned seed) {
  constexpr size_t kGroups = 1'000;
  constexpr float kSpread = 0.7F;
  std::mt19937 random(seed);
  std::mt19937 same(1);
  std::normal_distribution<float> normal;
  std::vector<float> centres(kGroups * dim);
  for (float& value : centres) value = normal(same);
  std::vector<float> vectors(count * dim);
  for (size_t i = 0; i < count; ++i) {
    const float* const centre = centres.data() + random() % kGroups * dim;
    float* const vector = vectors.data() + i * dim;
    float squares = 0;
    for (size_t d = 0; d < dim; ++d) {
      vector[d] = centre[d] + kSpread * normal(random);
      squares += vector[d] * vector[d];
    }
    for (size_t d = 0; d < dim; ++d) vector[d] /= std::sqrt(squares);
  }
  return vectors;
}

using Found = std::vector<std::vector<FoundItem>>;

// A kind of search. Returns what it finds; nothing for products alone.
struct Search {
  std::string name;
  std::function<Found(MatrixView<const float> users)> run;
  std::vector<double> seconds = {};
  double recall = 1;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double Recall(const Found& found, const Found& exact) {
  size_t hits = 0;
  size_t all = 0;
  for (size_t query = 0; query < exact.size(); ++query) {
    for (const FoundItem& item : exact[query]) {
      hits += static_cast<size_t>(
          std::ranges::count(found[query], item.position, &FoundItem::position));
    }
    all += exact[query].size();
  }
  return static_cast<double>(hits) / static_cast<double>(all);
}

// The first two searches are the products alone and the exact one.
void Measure(const Options& options, size_t items, size_t queries, std::vector<Search> searches) {
  const std::vector<float> users = Vectors(queries, options.dim, 3);
  const MatrixView<const float> view(users.data(), queries, options.dim);
  const Found exact = searches[1].run(view);
  for (size_t turn = 0; turn < options.turns; ++turn) {
    for (Search& search : searches) {
      const auto start = std::chrono::steady_clock::now();
      const Found found = search.run(view);
      search.seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      if (!found.empty()) search.recall = Recall(found, exact);
    }
  }
  for (const Search& search : searches) {
    std::vector<double> ratios;
    for (size_t turn = 0; turn < options.turns; ++turn) {
      ratios.push_back(searches[0].seconds[turn] / search.seconds[turn]);
    }
    const double ms = Median(search.seconds) * 1e3;
    std::printf(options.json ? "{\"search\":\"%s\",\"items\":%zu,\"queries\":%zu,\"ms\":%.4g,"
                               "\"ratio\":%.4g,\"recall\":%.4f}\n"
                             : "%-8s items=%zu queries=%zu ms=%.4g ratio=%.4g recall=%.4f\n",
                search.name.c_str(), items, queries, ms, Median(ratios), search.recall);
    std::fflush(stdout);
  }
}

Search SearchOf(const std::string& name, const ItemIndex& index, size_t k) {
  return {name,
          [&index, k](MatrixView<const float> users) { return index.Search(users, k).value(); }};
}

Search ProductOf(const ItemIndex& index) {
  return {
      "product", [&index](MatrixView<const float> users) {
        volatile float last = 0;
        SIMURGH_CHECK(
            ScoreBlocks(users, index.vectors(), [&](size_t /*first*/, MatrixView<float> scores) {
              last = scores(0, 0);
            }).ok());
        (void)last;
        return Found();
      }};
}

void Run(const Options& options) {
  cpu::SetComputeThreads(1);
  {
    const std::vector<float> vectors = Vectors(options.items, options.dim, 2);
    const ItemIndex exact = ItemIndex::Create(vectors, options.dim).value();
    const ItemIndex rounded =
        ItemIndex::Create(vectors, options.dim, {.precision = ItemIndex::Precision::kInt8}).value();
    for (const size_t queries : options.queries) {
      Measure(options, options.items, queries,
              {ProductOf(exact), SearchOf("exact", exact, options.k),
               SearchOf("int8", rounded, options.k)});
    }
  }
  if (options.graph_items == 0) return;
  const std::vector<float> vectors = Vectors(options.graph_items, options.dim, 2);
  const ItemIndex exact = ItemIndex::Create(vectors, options.dim).value();
  const ItemIndex graph = ItemIndex::Create(vectors, options.dim, {.graph_from = 1}).value();
  for (const size_t queries : options.queries) {
    Measure(options, options.graph_items, queries,
            {ProductOf(exact), SearchOf("exact", exact, options.k),
             SearchOf("graph", graph, options.k)});
  }
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) {
  simurgh::bench::Run(simurgh::bench::ParseOptions(argc, argv));
  return 0;
}
