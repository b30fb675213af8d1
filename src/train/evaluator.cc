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

// The samples that are in a group.
class Groups {
 public:
  // first: number of the batch's first sample.
  void Add(const CompactBatch& batch, size_t feature, size_t first) {
    const FeatureView view = batch.feature(feature);
    for (size_t i = 0; i < batch.batch_size; ++i) {
      const std::span<const uint32_t> occurrences = view.sample(i);
      if (occurrences.empty()) continue;
      samples_.push_back(first + i);
      groups_.push_back(view.ids[occurrences.front()]);
    }
  }

  double Auc(std::span<const float> labels, std::span<const float> probabilities) const {
    std::vector<float> own_labels;
    std::vector<float> own_probabilities;
    for (const size_t sample : samples_) {
      own_labels.push_back(labels[sample]);
      own_probabilities.push_back(probabilities[sample]);
    }
    return GroupAuc(own_labels, own_probabilities, groups_);
  }

 private:
  std::vector<size_t> samples_;
  std::vector<uint64_t> groups_;
};

}  // namespace

StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    const TrainerPosition& position, const OpenReader& open,
                                    const EvaluationOptions& options, std::stop_token stop) {
  BatchPipeline pipeline(port, {.purpose = PullPurpose::kEvaluate,
                                .run = position.run,
                                .rank = position.rank,
                                .staleness = kBatchesAhead,
                                .trained_steps = position.step,
                                .embedding_width = options.embedding_width,
                                .queue_batches = kBatchesAhead,
                                .retry_deadline = options.retry_deadline});
  const std::stop_callback stopper(std::move(stop), [&pipeline] { pipeline.Stop(); });
  const Loader loader(open, {}, pipeline);

  std::vector<float> labels;
  std::vector<float> probabilities;
  Groups groups;
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    const DenseBatch& dense = pulled->batch->dense;
    const size_t first = labels.size();
    labels.insert(labels.end(), dense.labels.begin(), dense.labels.end());
    probabilities.resize(labels.size());
    SIMURGH_RETURN_IF_ERROR(network.Predict(dense.matrix(), pulled->embeddings,
                                            std::span(probabilities).subspan(first)));
    if (options.group_feature) groups.Add(*pulled->batch->sparse, *options.group_feature, first);
    pipeline.Finish();
  }
  if (labels.empty()) {
    return absl::InvalidArgumentError(
        "evaluation: the data set has no rows; check data.validation and data.test");
  }
  CorrectForSampling(probabilities, options.kept_negatives);
  return EvaluationResult{.samples = labels.size(),
                          .auc = ExactAuc(labels, probabilities),
                          .log_loss = LogLoss(labels, probabilities),
                          .calibration = Calibration(labels, probabilities),
                          .normalized_entropy = NormalizedEntropy(labels, probabilities),
                          .group_auc = groups.Auc(labels, probabilities)};
}

}  // namespace simurgh
