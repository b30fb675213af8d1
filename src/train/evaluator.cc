#include "simurgh/train/evaluator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "simurgh/nn/metrics.h"
#include "simurgh/tensor/finite.h"
#include "simurgh/train/batch_pipeline.h"
#include "train/loader.h"
#include "train/sorted_merge.h"

namespace simurgh {
namespace {

// Batches pulled ahead: enough to keep the workers busy while the network computes.
constexpr uint32_t kBatchesAhead = 8;

// Memory for predictions of other ranks.
constexpr size_t kMergeBytes = size_t{64} << 20;

// Predictions of a set that are not finite.
struct NotFinite {
  // First the number of predictions; then EmbeddingCheck counts.
  std::vector<double> counts;

  std::span<double> features() { return std::span(counts).subspan(1); }
  // Sums over the ranks. Errors: FAILED_PRECONDITION if there are any; of the collective.
  Status Check(Collective& collective, const EmbeddingCheck& embeddings);
};

Status NotFinite::Check(Collective& collective, const EmbeddingCheck& embeddings) {
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, counts));
  if (counts.front() == 0) return absl::OkStatus();
  const std::string problem = embeddings.Problem(features());
  return absl::FailedPreconditionError(absl::StrCat(
      "evaluation: ", counts.front(), " predictions are not finite; ",
      problem.empty() ? "the weights are too large: lower the learning rates" : problem));
}

}  // namespace

void PredictionMetrics::Add(const Batch& batch, std::span<const float> probabilities) {
  std::optional<FeatureView> groups;
  if (group_feature_) groups = batch.sparse->feature(*group_feature_);
  for (size_t i = 0; i < probabilities.size(); ++i) {
    Prediction prediction{
        .label = batch.dense.labels[i], .probability = probabilities[i], .group = {}};
    if (groups) {
      const std::span<const uint32_t> occurrences = groups->sample(i / tasks_);
      if (!occurrences.empty()) prediction.group = groups->ids[occurrences.front()];
    }
    predictions_.push_back(prediction);
  }
}

StatusOr<EvaluationResult> PredictionMetrics::Compute(Collective& collective,
                                                      const std::vector<Prediction>& own) {
  PredictionSums sums;
  std::vector<uint64_t> scores;
  std::vector<GroupedScore> grouped;
  for (const Prediction& prediction : own) {
    sums.Add(prediction.label, prediction.probability);
    scores.push_back(RankedScore(prediction.label, prediction.probability));
    if (prediction.group) grouped.push_back({*prediction.group, scores.back()});
  }
  std::array<double, 4> values = {sums.samples, sums.positives, sums.predicted, sums.loss};
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, values));
  sums = {values[0], values[1], values[2], values[3]};
  if (sums.samples == 0) {
    return absl::InvalidArgumentError(
        "evaluation: the data set has no rows; check data.validation and data.test");
  }
  SortScores(scores);
  std::ranges::sort(grouped);
  AucSum auc;
  SIMURGH_RETURN_IF_ERROR(MergeSorted<uint64_t>(collective, scores, kMergeBytes / sizeof(uint64_t),
                                                [&](uint64_t score) { auc.Add(score); }));
  GroupAucSum group_auc;
  SIMURGH_RETURN_IF_ERROR(
      MergeSorted<GroupedScore>(collective, grouped, kMergeBytes / sizeof(GroupedScore),
                                [&](const GroupedScore& score) { group_auc.Add(score); }));
  return EvaluationResult{.samples = static_cast<uint64_t>(sums.samples),
                          .positives = static_cast<uint64_t>(sums.positives),
                          .auc = auc.value(),
                          .log_loss = sums.log_loss(),
                          .calibration = sums.calibration(),
                          .normalized_entropy = sums.normalized_entropy(),
                          .group_auc = group_auc.value(),
                          .tasks = {}};
}

StatusOr<EvaluationResult> PredictionMetrics::Compute(Collective& collective) const {
  if (tasks_ == 1) return Compute(collective, predictions_);
  std::vector<EvaluationResult> results;
  for (size_t task = 0; task < tasks_; ++task) {
    std::vector<Prediction> own;
    for (size_t i = task; i < predictions_.size(); i += tasks_) own.push_back(predictions_[i]);
    SIMURGH_ASSIGN_OR_RETURN(results.emplace_back(), Compute(collective, own));
  }
  EvaluationResult result = results.front();
  result.tasks = std::move(results);
  return result;
}

Status Predict(EmbeddingPort& port, DenseNetwork& network, Collective& collective,
               const StepId& step_id, const OpenReader& open, const EvaluationOptions& options,
               std::stop_token stop) {
  BatchPipeline pipeline(port, {.mode = LookupMode::kEvaluate,
                                .run = step_id.run,
                                .rank = step_id.rank,
                                .staleness = kBatchesAhead,
                                .trained_steps = step_id.step,
                                .blocks = &network.blocks(),
                                .queue_batches = kBatchesAhead,
                                .retry_deadline = options.retry_deadline});
  const std::stop_callback stopper(std::move(stop), [&pipeline] { pipeline.Stop(); });
  const Loader loader([&open](uint32_t) { return open(); }, {}, pipeline);

  std::vector<float> probabilities;
  NotFinite not_finite{.counts = std::vector<double>(1 + options.embeddings.features())};
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    const DenseBatch& dense = pulled->batch->dense;
    probabilities.resize(dense.batch_size * options.tasks);
    SIMURGH_RETURN_IF_ERROR(network.Predict(*pulled->block, dense.matrix(), probabilities));
    if (!AllFinite(probabilities)) {
      not_finite.counts.front() += static_cast<double>(std::ranges::count_if(
          probabilities, [](float probability) { return !std::isfinite(probability); }));
      options.embeddings.Count(*pulled->block, dense.batch_size, not_finite.features());
    }
    CorrectForSampling(probabilities, options.kept_negatives);
    if (options.sink) SIMURGH_RETURN_IF_ERROR(options.sink(*pulled->batch, probabilities));
    pipeline.Finish();
  }
  return not_finite.Check(collective, options.embeddings);
}

StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    Collective& collective, const StepId& step_id,
                                    const OpenReader& open, const EvaluationOptions& options,
                                    std::stop_token stop) {
  PredictionMetrics metrics(options.tasks, options.group_feature);
  EvaluationOptions collecting = options;
  collecting.sink = [&](const Batch& batch, std::span<const float> probabilities) {
    metrics.Add(batch, probabilities);
    return options.sink ? options.sink(batch, probabilities) : absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(
      Predict(port, network, collective, step_id, open, collecting, std::move(stop)));
  return metrics.Compute(collective);
}

}  // namespace simurgh
