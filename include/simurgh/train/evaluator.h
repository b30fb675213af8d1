#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/nn/embedding_check.h"
#include "simurgh/train/ports.h"

namespace simurgh {

struct EvaluationResult {
  uint64_t samples = 0;
  uint64_t positives = 0;  // Samples with label 1.
  double auc = 0;          // Exact; NaN when a class is missing.
  double log_loss = 0;     // Mean binary cross entropy.
  double calibration = 0;  // Mean prediction over the share of positives.
  double normalized_entropy = 0;
  double group_auc = 0;  // See GroupAucSum; NaN when no feature groups the samples.
  // The result of each label if there are several; the values above are then the first label's.
  std::vector<EvaluationResult> tasks;
};

// Receives each batch, in order, with its probabilities: (B, tasks), row by row. An error ends the
// predictions.
using PredictionSink =
    std::function<Status(const Batch& batch, std::span<const float> probabilities)>;

// Collects predictions of samples with labels, and computes their metrics.
//
// Threads: one owner.
class PredictionMetrics {
 public:
  // tasks, group_feature: see EvaluationOptions.
  PredictionMetrics(size_t tasks, std::optional<size_t> group_feature)
      : tasks_(tasks), group_feature_(group_feature) {}

  // probabilities: (B, tasks), row by row.
  void Add(const Batch& batch, std::span<const float> probabilities);

  // The metrics of the predictions of all ranks. AUCs are exact.
  // Errors: INVALID_ARGUMENT without samples; of the collective.
  StatusOr<EvaluationResult> Compute(Collective& collective) const;

 private:
  struct Prediction {
    float label = 0;
    float probability = 0;
    std::optional<uint64_t> group;
  };
  static StatusOr<EvaluationResult> Compute(Collective& collective,
                                            const std::vector<Prediction>& predictions);

  const size_t tasks_;
  const std::optional<size_t> group_feature_;
  std::vector<Prediction> predictions_;
};

struct EvaluationOptions {
  size_t tasks = 1;           // Labels per sample.
  double kept_negatives = 1;  // Share of negatives that training kept; corrects predictions.
  // A sample's group is the first id of this feature; samples without an id have no group.
  std::optional<size_t> group_feature;
  EmbeddingCheck embeddings;  // Names features in errors.
  std::chrono::milliseconds retry_deadline{60'000};
  PredictionSink sink;  // May be empty.
};

// Opens a data set from its beginning.
using OpenReader = std::function<StatusOr<std::unique_ptr<BatchReader>>()>;
// Opens an epoch, counted from 0, of the training data.
using OpenEpoch = std::function<StatusOr<std::unique_ptr<BatchReader>>(uint32_t epoch)>;

// Predicts a data set with the current weights, which do not change; unseen ids read as zeros. Each
// rank predicts its own share. Ignores labels and options.group_feature.
//
// step_id: the trainer's. Its step is the number of finished steps, all of them acknowledged.
// Errors: of the reader, the port past `retry_deadline`, the network and the sink;
// FAILED_PRECONDITION, on all ranks, if a prediction is not finite; CANCELLED after a stop.
// Threads: the network's owner. It calls the sink.
Status Predict(EmbeddingPort& port, DenseNetwork& network, Collective& collective,
               const StepId& step_id, const OpenReader& open, const EvaluationOptions& options,
               std::stop_token stop);

// As Predict(), and compares the predictions with the labels. Each rank holds the predictions of
// its share; all ranks get the result of all shares. AUCs are exact.
// Errors: of Predict(); INVALID_ARGUMENT for an empty set.
StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    Collective& collective, const StepId& step_id,
                                    const OpenReader& open, const EvaluationOptions& options,
                                    std::stop_token stop);

}  // namespace simurgh
