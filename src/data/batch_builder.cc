#include "simurgh/data/batch_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/id_index.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// One feature of the batch in the making.
struct FeatureState {
  IdIndex index;
  std::vector<uint32_t> occurrences;
  std::vector<uint32_t> ends;  // Per finished sample, where it ends in occurrences.
  size_t finished_ids = 0;     // Distinct ids of finished samples.

  size_t finished_occurrences() const { return ends.empty() ? 0 : ends.back(); }
};

}  // namespace

// What goes past a limit is counted and not kept, so memory stays bounded and Build can say how
// much there was.
struct BatchBuilder::State {
  State(size_t feature_count, size_t dense_width)
      : features(feature_count), dense_row(dense_width) {}

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
  DenseBatch TakeDense();
  void Clear();
};

BatchBuilder::BatchBuilder(size_t feature_count, size_t dense_width)
    : state_(std::make_unique<State>(feature_count, dense_width)) {}
BatchBuilder::~BatchBuilder() = default;
BatchBuilder::BatchBuilder(BatchBuilder&&) noexcept = default;
BatchBuilder& BatchBuilder::operator=(BatchBuilder&&) noexcept = default;

void BatchBuilder::SetLabel(float label) { state_->label = label; }

void BatchBuilder::SetDense(size_t column, float value) {
  SIMURGH_CHECK_LT(column, state_->dense_row.size());
  state_->dense_row[column] = value;
}

void BatchBuilder::AddId(size_t feature, uint64_t id) {
  SIMURGH_CHECK_LT(feature, state_->features.size());
  if (++state_->occurrences > kMaxBatchOccurrences) return;
  FeatureState& target = state_->features[feature];
  target.occurrences.push_back(target.index.Insert(id));
}

void BatchBuilder::EndSample() {
  State& state = *state_;
  if (++state.samples <= kMaxBatchSamples) {
    for (FeatureState& feature : state.features) {
      feature.ends.push_back(static_cast<uint32_t>(feature.occurrences.size()));
      feature.finished_ids = feature.index.ids().size();
    }
    state.dense.values.insert(state.dense.values.end(), state.dense_row.begin(),
                              state.dense_row.end());
    state.dense.labels.push_back(state.label);
  }
  state.finished_occurrences = state.occurrences;
  state.OpenSample();
}

void BatchBuilder::AbandonSample() {
  for (FeatureState& feature : state_->features) {
    feature.index.Truncate(feature.finished_ids);
    feature.occurrences.resize(feature.finished_occurrences());
  }
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
  return absl::OkStatus();
}

std::shared_ptr<const CompactBatch> BatchBuilder::State::TakeSparse() {
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = static_cast<uint32_t>(samples);
  size_t id_count = 0;
  for (const FeatureState& feature : features) id_count += feature.index.ids().size();
  batch->ids.reserve(id_count);
  batch->occurrences.reserve(occurrences);
  batch->offsets.reserve(features.size() * samples + 1);
  batch->unique_ends.reserve(features.size());
  batch->offsets.push_back(0);
  for (const FeatureState& feature : features) {
    const std::vector<uint64_t>& ids = feature.index.ids();
    const auto base = static_cast<uint32_t>(batch->occurrences.size());
    batch->ids.insert(batch->ids.end(), ids.begin(), ids.end());
    batch->occurrences.insert(batch->occurrences.end(), feature.occurrences.begin(),
                              feature.occurrences.end());
    for (const uint32_t end : feature.ends) batch->offsets.push_back(base + end);
    batch->unique_ends.push_back(static_cast<uint32_t>(batch->ids.size()));
  }
  return batch;
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
    feature.index.Clear();
    feature.occurrences.clear();
    feature.ends.clear();
    feature.finished_ids = 0;
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
