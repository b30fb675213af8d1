#include "simurgh/data/batch_builder.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/id_index.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// One list of ids of the batch in the making.
struct ListState {
  IdIndex index;
  size_t finished_ids = 0;  // Distinct ids of finished samples.
  size_t features = 0;      // That read it.
};

// One feature of the batch in the making.
struct FeatureState {
  ListState* list = nullptr;
  std::vector<uint32_t> occurrences;
  std::vector<float> weights;  // Of the first occurrences; those behind them have 1.
  std::vector<uint32_t> ends;  // Per finished sample, where it ends in occurrences.

  size_t finished_occurrences() const { return ends.empty() ? 0 : ends.back(); }
};

std::vector<uint32_t> OwnLists(size_t feature_count) {
  std::vector<uint32_t> lists(feature_count);
  std::iota(lists.begin(), lists.end(), 0U);
  return lists;
}

// Numbers ids anew, by first appearance feature after feature: features that share a list filled it
// sample by sample.
class Renumbering {
 public:
  explicit Renumbering(size_t ids) : numbers_(ids, kNone) {}

  uint32_t operator()(uint32_t number) {
    if (numbers_[number] == kNone) {
      numbers_[number] = static_cast<uint32_t>(order_.size());
      order_.push_back(number);
    }
    return numbers_[number];
  }

  // The old numbers in their new order.
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> order_;
};

}  // namespace

// What goes past a limit is counted and not kept, so memory stays bounded and Build can say how
// much there was.
struct BatchBuilder::State {
  State(std::vector<uint32_t> lists_of_features, size_t dense_width);

  std::vector<uint32_t> list_of;  // By feature.
  std::vector<ListState> lists;   // Never grows: features point into it.
  std::vector<FeatureState> features;
  std::vector<float> dense_row;  // The open sample's.
  float label = 0.0F;
  DenseBatch dense;  // Finished samples.
  size_t samples = 0;
  size_t occurrences = 0;  // Of finished and open samples, kept or not.
  size_t finished_occurrences = 0;

  void OpenSample() {
    std::fill(dense_row.begin(), dense_row.end(), 0.0F);
    label = 0.0F;
  }

  Status CheckLimits() const;
  std::shared_ptr<const CompactBatch> TakeSparse();
  void AppendOccurrences(CompactBatch& batch);
  void AppendIds(CompactBatch& batch, const std::vector<Renumbering>& shared) const;
  DenseBatch TakeDense();
  void Clear();
};

BatchBuilder::State::State(std::vector<uint32_t> lists_of_features, size_t dense_width)
    : list_of(std::move(lists_of_features)), features(list_of.size()), dense_row(dense_width) {
  uint32_t used = 0;
  for (const uint32_t list : list_of) {
    SIMURGH_CHECK_LE(list, used);
    if (list == used) ++used;
  }
  lists.resize(used);
  for (size_t f = 0; f < features.size(); ++f) {
    features[f].list = &lists[list_of[f]];
    ++features[f].list->features;
  }
}

BatchBuilder::BatchBuilder(size_t feature_count, size_t dense_width)
    : BatchBuilder(OwnLists(feature_count), dense_width) {}
BatchBuilder::BatchBuilder(std::vector<uint32_t> lists, size_t dense_width)
    : state_(std::make_unique<State>(std::move(lists), dense_width)) {}
BatchBuilder::~BatchBuilder() = default;
BatchBuilder::BatchBuilder(BatchBuilder&&) noexcept = default;
BatchBuilder& BatchBuilder::operator=(BatchBuilder&&) noexcept = default;

void BatchBuilder::SetLabel(float label) { state_->label = label; }

void BatchBuilder::SetDense(size_t column, float value) {
  SIMURGH_CHECK_LT(column, state_->dense_row.size());
  state_->dense_row[column] = value;
}

void BatchBuilder::AddId(size_t feature, uint64_t id, float weight) {
  SIMURGH_CHECK_LT(feature, state_->features.size());
  if (++state_->occurrences > kMaxBatchOccurrences) return;
  FeatureState& target = state_->features[feature];
  if (weight != 1.0F) {
    target.weights.resize(target.occurrences.size(), 1.0F);
    target.weights.push_back(weight);
  }
  target.occurrences.push_back(target.list->index.Insert(id));
}

void BatchBuilder::EndSample() {
  State& state = *state_;
  if (++state.samples <= kMaxBatchSamples) {
    for (FeatureState& feature : state.features) {
      feature.ends.push_back(static_cast<uint32_t>(feature.occurrences.size()));
    }
    for (ListState& list : state.lists) list.finished_ids = list.index.ids().size();
    state.dense.values.insert(state.dense.values.end(), state.dense_row.begin(),
                              state.dense_row.end());
    state.dense.labels.push_back(state.label);
  }
  state.finished_occurrences = state.occurrences;
  state.OpenSample();
}

void BatchBuilder::AbandonSample() {
  for (FeatureState& feature : state_->features) {
    feature.occurrences.resize(feature.finished_occurrences());
    feature.weights.resize(std::min(feature.weights.size(), feature.occurrences.size()));
  }
  for (ListState& list : state_->lists) list.index.Truncate(list.finished_ids);
  state_->occurrences = state_->finished_occurrences;
  state_->OpenSample();
}

size_t BatchBuilder::size() const { return state_->samples; }

Status BatchBuilder::State::CheckLimits() const {
  if (samples > kMaxBatchSamples) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: %d samples exceed the limit of %d; choose a smaller batch size",
                        samples, kMaxBatchSamples));
  }
  if (occurrences > kMaxBatchOccurrences) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "batch: %d ids of %d samples exceed the limit of %d; choose a smaller batch size",
        occurrences, samples, kMaxBatchOccurrences));
  }
  if (samples * features.size() > kMaxBatchCells) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "batch: %d samples of %d features exceed the limit of %d cells; choose a smaller batch "
        "size",
        samples, features.size(), kMaxBatchCells));
  }
  return absl::OkStatus();
}

std::shared_ptr<const CompactBatch> BatchBuilder::State::TakeSparse() {
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = static_cast<uint32_t>(samples);
  if (lists.size() < features.size()) batch->lists = list_of;
  AppendOccurrences(*batch);
  std::vector<Renumbering> shared;
  for (const ListState& list : lists) {
    shared.emplace_back(list.features > 1 ? list.index.ids().size() : 0);
  }
  for (size_t f = 0; f < features.size(); ++f) {
    if (features[f].list->features == 1) continue;
    const auto first = batch->occurrences.begin() + batch->offsets[f * samples];
    const auto end = batch->occurrences.begin() + batch->offsets[(f + 1) * samples];
    std::transform(first, end, first, std::ref(shared[list_of[f]]));
  }
  AppendIds(*batch, shared);
  return batch;
}

void BatchBuilder::State::AppendOccurrences(CompactBatch& batch) {
  batch.occurrences.reserve(occurrences);
  batch.offsets.reserve(features.size() * samples + 1);
  batch.offsets.push_back(0);
  const bool weighted = std::any_of(features.begin(), features.end(),
                                    [](const auto& feature) { return !feature.weights.empty(); });
  if (weighted) batch.weights.reserve(occurrences);
  for (const FeatureState& feature : features) {
    const auto base = static_cast<uint32_t>(batch.occurrences.size());
    batch.occurrences.insert(batch.occurrences.end(), feature.occurrences.begin(),
                             feature.occurrences.end());
    for (const uint32_t end : feature.ends) batch.offsets.push_back(base + end);
    if (!weighted) continue;
    batch.weights.insert(batch.weights.end(), feature.weights.begin(), feature.weights.end());
    batch.weights.resize(batch.occurrences.size(), 1.0F);
  }
}

void BatchBuilder::State::AppendIds(CompactBatch& batch,
                                    const std::vector<Renumbering>& shared) const {
  size_t id_count = 0;
  for (const ListState& list : lists) id_count += list.index.ids().size();
  batch.ids.reserve(id_count);
  batch.unique_ends.reserve(lists.size());
  for (size_t l = 0; l < lists.size(); ++l) {
    const std::vector<uint64_t>& ids = lists[l].index.ids();
    if (lists[l].features == 1) {
      batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    } else {
      for (const uint32_t number : shared[l].order()) batch.ids.push_back(ids[number]);
    }
    batch.unique_ends.push_back(static_cast<uint32_t>(batch.ids.size()));
  }
}

DenseBatch BatchBuilder::State::TakeDense() {
  DenseBatch next;  // Room for as much again: one allocation a batch, none a sample.
  next.values.reserve(dense.values.size());
  next.labels.reserve(dense.labels.size());
  dense.batch_size = samples;
  dense.width = dense_row.size();
  return std::exchange(dense, std::move(next));
}

void BatchBuilder::State::Clear() {
  for (FeatureState& feature : features) {
    feature.occurrences.clear();
    feature.weights.clear();
    feature.ends.clear();
  }
  for (ListState& list : lists) {
    list.index.Clear();
    list.finished_ids = 0;
  }
  dense.values.clear();
  dense.labels.clear();
  samples = 0;
  occurrences = 0;
  finished_occurrences = 0;
}

StatusOr<Batch> BatchBuilder::Build() {
  AbandonSample();
  Status within_limits = state_->CheckLimits();
  if (!within_limits.ok()) {
    state_->Clear();
    return within_limits;
  }
  Batch batch{.sparse = state_->TakeSparse(), .dense = state_->TakeDense()};
  state_->Clear();
  return batch;
}

}  // namespace simurgh
