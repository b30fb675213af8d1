#include "simurgh/train/evaluator.h"

#include <utility>
#include <vector>

#include "simurgh/nn/metrics.h"
#include "simurgh/train/batch_pipeline.h"
#include "train/loader.h"

namespace simurgh {
namespace {

// Batches pulled ahead: enough to keep the workers busy while the network computes.
constexpr uint32_t kBatchesAhead = 8;

}  // namespace

StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    const TrainerPosition& position, const OpenReader& open,
                                    size_t embedding_width, double kept_negatives,
                                    std::chrono::milliseconds retry_deadline,
                                    std::stop_token stop) {
  BatchPipeline pipeline(port, {.purpose = PullPurpose::kEvaluate,
                                .run = position.run,
                                .rank = position.rank,
                                .staleness = kBatchesAhead,
                                .trained_steps = position.step,
                                .embedding_width = embedding_width,
                                .queue_batches = kBatchesAhead,
                                .retry_deadline = retry_deadline});
  const std::stop_callback stopper(std::move(stop), [&pipeline] { pipeline.Stop(); });
  const Loader loader(open, {}, pipeline);

  std::vector<float> labels;
  std::vector<float> probabilities;
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    const DenseBatch& dense = pulled->batch->dense;
    const size_t first = labels.size();
    labels.insert(labels.end(), dense.labels.begin(), dense.labels.end());
    probabilities.resize(labels.size());
    SIMURGH_RETURN_IF_ERROR(network.Predict(dense.matrix(), pulled->embeddings,
                                            std::span(probabilities).subspan(first)));
    pipeline.Finish();
  }
  if (labels.empty()) {
    return absl::InvalidArgumentError("evaluation: the data set has no rows; check data.test");
  }
  CorrectForSampling(probabilities, kept_negatives);
  return EvaluationResult{.samples = labels.size(),
                          .auc = ExactAuc(labels, probabilities),
                          .log_loss = LogLoss(labels, probabilities),
                          .calibration = Calibration(labels, probabilities)};
}

}  // namespace simurgh
