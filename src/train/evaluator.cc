#include "simurgh/train/evaluator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simurgh/nn/metrics.h"
#include "simurgh/train/batch_pipeline.h"
#include "train/loader.h"

namespace simurgh {
namespace {

// Batches pulled ahead: enough to keep the workers busy while the network computes.
constexpr uint32_t kBatchesAhead = 8;

// A label of a sample as ranks tell one another of it.
struct Prediction {
  float label = 0;
  float probability = 0;
  uint64_t group = 0;
  uint64_t has_group = 0;  // As wide as its neighbour: no padding is sent.
};

// predictions: of the batch, a sample's tasks side by side.
void SetGroups(const CompactBatch& batch, size_t feature, size_t tasks,
               std::span<Prediction> predictions) {
  const FeatureView view = batch.feature(feature);
  for (size_t i = 0; i < predictions.size(); ++i) {
    const std::span<const uint32_t> occurrences = view.sample(i / tasks);
    if (occurrences.empty()) continue;
    predictions[i].group = view.ids[occurrences.front()];
    predictions[i].has_group = 1;
  }
}

// Everybody's predictions, rank after rank.
Status GatherAll(Collective& collective, std::vector<Prediction>& predictions) {
  if (collective.ranks() == 1) return absl::OkStatus();
  const uint64_t own = predictions.size();
  std::vector<uint64_t> counts(collective.ranks());
  SIMURGH_RETURN_IF_ERROR(collective.Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                            std::as_writable_bytes(std::span(counts))));
  const uint64_t most = *std::ranges::max_element(counts);
  predictions.resize(most);
  std::vector<Prediction> all(most * counts.size());
  SIMURGH_RETURN_IF_ERROR(collective.Gather(Channel::kStep, std::as_bytes(std::span(predictions)),
                                            std::as_writable_bytes(std::span(all))));
  predictions.clear();
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    predictions.insert(predictions.end(), first, first + static_cast<std::ptrdiff_t>(counts[rank]));
  }
  return absl::OkStatus();
}

double GroupAucOf(const std::vector<Prediction>& predictions) {
  std::vector<float> labels;
  std::vector<float> probabilities;
  std::vector<uint64_t> groups;
  for (const Prediction& prediction : predictions) {
    if (prediction.has_group == 0) continue;
    labels.push_back(prediction.label);
    probabilities.push_back(prediction.probability);
    groups.push_back(prediction.group);
  }
  return GroupAuc(labels, probabilities, groups);
}

EvaluationResult ComputeTaskMetrics(const std::vector<Prediction>& predictions) {
  std::vector<float> labels;
  std::vector<float> probabilities;
  for (const Prediction& prediction : predictions) {
    labels.push_back(prediction.label);
    probabilities.push_back(prediction.probability);
  }
  return EvaluationResult{.samples = labels.size(),
                          .auc = ExactAuc(labels, probabilities),
                          .log_loss = LogLoss(labels, probabilities),
                          .calibration = Calibration(labels, probabilities),
                          .normalized_entropy = NormalizedEntropy(labels, probabilities),
                          .group_auc = GroupAucOf(predictions),
                          .tasks = {}};
}

StatusOr<EvaluationResult> ComputeMetrics(const std::vector<Prediction>& predictions,
                                          size_t tasks) {
  if (predictions.empty()) {
    return absl::InvalidArgumentError(
        "evaluation: the data set has no rows; check data.validation and data.test");
  }
  if (tasks == 1) return ComputeTaskMetrics(predictions);
  std::vector<EvaluationResult> results;
  for (size_t task = 0; task < tasks; ++task) {
    std::vector<Prediction> own;
    for (size_t i = task; i < predictions.size(); i += tasks) own.push_back(predictions[i]);
    results.push_back(ComputeTaskMetrics(own));
  }
  EvaluationResult result = results.front();
  result.tasks = std::move(results);
  return result;
}

}  // namespace

StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    Collective& collective, const StepId& position,
                                    const OpenReader& open, const EvaluationOptions& options,
                                    std::stop_token stop) {
  BatchPipeline pipeline(port, {.purpose = LookupMode::kEvaluate,
                                .run = position.run,
                                .rank = position.rank,
                                .staleness = kBatchesAhead,
                                .trained_steps = position.step,
                                .blocks = &network.blocks(),
                                .queue_batches = kBatchesAhead,
                                .retry_deadline = options.retry_deadline});
  const std::stop_callback stopper(std::move(stop), [&pipeline] { pipeline.Stop(); });
  const Loader loader(open, {}, pipeline);

  std::vector<Prediction> predictions;
  std::vector<float> probabilities;
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    const DenseBatch& dense = pulled->batch->dense;
    probabilities.resize(dense.batch_size * options.tasks);
    SIMURGH_RETURN_IF_ERROR(network.PredictOn(*pulled->block, dense.matrix(), probabilities));
    CorrectForSampling(probabilities, options.kept_negatives);
    const size_t first = predictions.size();
    for (size_t i = 0; i < probabilities.size(); ++i) {
      predictions.push_back({.label = dense.labels[i], .probability = probabilities[i]});
    }
    if (options.group_feature) {
      SetGroups(*pulled->batch->sparse, *options.group_feature, options.tasks,
                std::span(predictions).subspan(first));
    }
    pipeline.Finish();
  }
  SIMURGH_RETURN_IF_ERROR(GatherAll(collective, predictions));
  return ComputeMetrics(predictions, options.tasks);
}

}  // namespace simurgh
