#include "simurgh/data/batch_builder.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/id_index.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// One feature of the batch in the making. Ids are collected as they come and numbered by Build,
// feature after feature: so one index serves all, and stays in cache.
struct FeatureState {
  std::vector<uint64_t> ids;   // One an occurrence.
  std::vector<float> weights;  // Of the first occurrences; those behind them have 1.
  std::vector<uint32_t> ends;  // Per finished sample, where it ends in ids.

  size_t finished_occurrences() const { return ends.empty() ? 0 : ends.back(); }
};

std::vector<uint32_t> OwnLists(size_t feature_count) {
  std::vector<uint32_t> lists(feature_count);
  std::iota(lists.begin(), lists.end(), 0U);
  return lists;
}

// The features of each list.
std::vector<std::vector<size_t>> FeaturesOfLists(const std::vector<uint32_t>& lists) {
  std::vector<std::vector<size_t>> features;
  for (size_t f = 0; f < lists.size(); ++f) {
    SIMURGH_CHECK_LE(lists[f], features.size());
    if (lists[f] == features.size()) features.emplace_back();
    features[lists[f]].push_back(f);
  }
  return features;
}

}  // namespace

// What goes past a limit is counted and not kept, so memory stays bounded and Build can say how
// much there was.
struct BatchBuilder::State {
  State(std::vector<uint32_t> lists_of_features, size_t dense_width, size_t tasks)
      : list_of(std::move(lists_of_features)),
        features_of_list(FeaturesOfLists(list_of)),
        features(list_of.size()),
        dense_row(dense_width),
        labels(tasks) {}

  std::vector<uint32_t> list_of;  // By feature.
  std::vector<std::vector<size_t>> features_of_list;
  std::vector<FeatureState> features;
  IdIndex index;
  std::vector<float> dense_row;  // The open sample's.
  std::vector<float> labels;
  DenseBatch dense;  // Finished samples.
  size_t samples = 0;
  size_t occurrences = 0;  // Of finished and open samples, kept or not.
  size_t finished_occurrences = 0;

  void OpenSample() {
    std::fill(dense_row.begin(), dense_row.end(), 0.0F);
    std::fill(labels.begin(), labels.end(), 0.0F);
  }

  Status CheckLimits() const;
  std::shared_ptr<const CompactBatch> TakeSparse();
  void AppendOffsets(CompactBatch& batch) const;
  void NumberIds(CompactBatch& batch);
  void AppendWeights(CompactBatch& batch) const;
  DenseBatch TakeDense();
  void Clear();
};

BatchBuilder::BatchBuilder(size_t feature_count, size_t dense_width, size_t tasks)
    : BatchBuilder(OwnLists(feature_count), dense_width, tasks) {}
BatchBuilder::BatchBuilder(std::vector<uint32_t> lists, size_t dense_width, size_t tasks)
    : state_(std::make_unique<State>(std::move(lists), dense_width, tasks)) {
  SIMURGH_CHECK_LT(0U, tasks);
}
BatchBuilder::~BatchBuilder() = default;
BatchBuilder::BatchBuilder(BatchBuilder&&) noexcept = default;
BatchBuilder& BatchBuilder::operator=(BatchBuilder&&) noexcept = default;

void BatchBuilder::SetLabel(float label, size_t task) {
  SIMURGH_CHECK_LT(task, state_->labels.size());
  state_->labels[task] = label;
}

void BatchBuilder::SetDense(size_t column, float value) {
  SIMURGH_CHECK_LT(column, state_->dense_row.size());
  state_->dense_row[column] = value;
}

void BatchBuilder::AddId(size_t feature, uint64_t id, float weight) {
  SIMURGH_CHECK_LT(feature, state_->features.size());
  if (++state_->occurrences > kMaxBatchOccurrences) return;
  FeatureState& target = state_->features[feature];
  if (weight != 1.0F) {
    target.weights.resize(target.ids.size(), 1.0F);
    target.weights.push_back(weight);
  }
  target.ids.push_back(id);
}

void BatchBuilder::EndSample() {
  State& state = *state_;
  if (++state.samples <= kMaxBatchSamples) {
    for (FeatureState& feature : state.features) {
      feature.ends.push_back(static_cast<uint32_t>(feature.ids.size()));
    }
    state.dense.values.insert(state.dense.values.end(), state.dense_row.begin(),
                              state.dense_row.end());
    state.dense.labels.insert(state.dense.labels.end(), state.labels.begin(), state.labels.end());
  }
  state.finished_occurrences = state.occurrences;
  state.OpenSample();
}

void BatchBuilder::AbandonSample() {
  for (FeatureState& feature : state_->features) {
    feature.ids.resize(feature.finished_occurrences());
    feature.weights.resize(std::min(feature.weights.size(), feature.ids.size()));
  }
  state_->occurrences = state_->finished_occurrences;
  state_->OpenSample();
}

bool BatchBuilder::positive() const {
  return std::any_of(state_->labels.begin(), state_->labels.end(),
                     [](float label) { return label == 1.0F; });
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
  if (features_of_list.size() < features.size()) batch->lists = list_of;
  AppendOffsets(*batch);
  NumberIds(*batch);
  AppendWeights(*batch);
  return batch;
}

void BatchBuilder::State::AppendOffsets(CompactBatch& batch) const {
  batch.offsets.reserve(features.size() * samples + 1);
  batch.offsets.push_back(0);
  for (const FeatureState& feature : features) {
    const uint32_t base = batch.offsets.back();
    for (const uint32_t end : feature.ends) batch.offsets.push_back(base + end);
  }
}

void BatchBuilder::State::NumberIds(CompactBatch& batch) {
  batch.occurrences.resize(batch.offsets.back());
  batch.unique_ends.reserve(features_of_list.size());
  for (const std::vector<size_t>& list : features_of_list) {
    index.Clear();
    for (const size_t f : list) {
      const std::span<const uint64_t> ids = features[f].ids;
      index.Number(ids,
                   std::span(batch.occurrences).subspan(batch.offsets[f * samples], ids.size()));
    }
    const std::span<const uint64_t> distinct = index.ids();
    batch.ids.insert(batch.ids.end(), distinct.begin(), distinct.end());
    batch.unique_ends.push_back(static_cast<uint32_t>(batch.ids.size()));
  }
}

void BatchBuilder::State::AppendWeights(CompactBatch& batch) const {
  if (std::all_of(features.begin(), features.end(),
                  [](const auto& feature) { return feature.weights.empty(); })) {
    return;
  }
  batch.weights.resize(batch.occurrences.size(), 1.0F);
  for (size_t f = 0; f < features.size(); ++f) {
    std::copy(features[f].weights.begin(), features[f].weights.end(),
              batch.weights.begin() + batch.offsets[f * samples]);
  }
}

DenseBatch BatchBuilder::State::TakeDense() {
  DenseBatch next;  // Room for as much again: one allocation a batch, none a sample.
  next.values.reserve(dense.values.size());
  next.labels.reserve(dense.labels.size());
  dense.batch_size = samples;
  dense.width = dense_row.size();
  dense.tasks = labels.size();
  return std::exchange(dense, std::move(next));
}

void BatchBuilder::State::Clear() {
  for (FeatureState& feature : features) {
    feature.ids.clear();
    feature.weights.clear();
    feature.ends.clear();
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
