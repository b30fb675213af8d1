#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "config/embedding_form.h"

namespace simurgh {

// Metric by which evaluations are compared. With several labels, it is that of the first one.
enum class EvaluationMetric {
  kAuc,       // Larger is better.
  kLogLoss,   // Smaller is better.
  kGroupAuc,  // Larger is better.
  kRmse,      // Smaller is better.
  kLoss,      // Mean of the task's loss. Smaller is better.
  // Metrics of a ranking of all items, see RankingResult. Larger is better.
  kRecall,
  kHitRate,
  kNdcg,
  kMrr,
};

// Length of the lists that kRecall, kHitRate and kNdcg look at.
inline constexpr uint32_t kComparedItems = 20;

// Names in YAML, indexed by EvaluationMetric.
inline constexpr std::array kMetricNames = {"auc",       "log_loss",    "group_auc", "rmse", "loss",
                                            "recall@20", "hit_rate@20", "ndcg@20",   "mrr"};
inline const char* NameOf(EvaluationMetric metric) {
  return kMetricNames[static_cast<size_t>(metric)];
}

// Returns whether the metric is one of a ranking of all items.
inline bool IsOfRanking(EvaluationMetric metric) { return metric >= EvaluationMetric::kRecall; }

// Returns the metric's name in results and manifests.
inline const char* ReportedName(EvaluationMetric metric) {
  return metric == EvaluationMetric::kLogLoss ? "logloss" : NameOf(metric);
}

// Returns the value as a score, of which larger ones are better.
inline double ScoreOf(EvaluationMetric metric, double value) {
  const bool larger = metric == EvaluationMetric::kAuc || metric == EvaluationMetric::kGroupAuc ||
                      IsOfRanking(metric);
  return larger ? value : -value;
}

// Factor of a learning rate by step; config/README.md has the formulas.
struct LearningRateSchedule {
  enum class Kind { kConstant, kLinear, kExponential, kCosine };

  Kind kind = Kind::kConstant;  // Schedule after the warm-up.
  uint64_t warmup_steps = 0;
  uint64_t decay_steps = 100'000;  // kConstant has neither this nor the next two.
  float decay_factor = 0.5F;       // exponential: (0, 1], per decay_steps.
  float end_factor = 0.0F;         // Final share of the rate, [0, 1].
};

// Update of the network's weights; config/README.md has the formulas.
struct DenseOptimizerConfig {
  enum class Kind { kSgd, kAdam, kAdagrad, kLamb };

  Kind kind = Kind::kSgd;
  float learning_rate = 0.1F;  // > 0
  LearningRateSchedule schedule;

  float momentum = 0.0F;  // sgd
  bool nesterov = false;
  float beta1 = 0.9F;                // adam, lamb
  float beta2 = 0.999F;              // adam, lamb
  float epsilon = 1e-8F;             // adam, adagrad, lamb
  float initial_accumulator = 0.0F;  // adagrad

  float weight_decay = 0.0F;            // Adds weight_decay * w to the gradient.
  float decoupled_weight_decay = 0.0F;  // Subtracts learning_rate * this * w.
  float max_gradient_norm = 0.0F;       // Longer gradients are scaled to it; 0: no limit.
  float average_decay = 0.0F;           // Decay of the weights' moving average; 0: none.
};

// Ends training when evaluations no longer improve.
struct EarlyStoppingConfig {
  using Metric = EvaluationMetric;

  uint32_t patience = 0;         // Evaluations in a row without improvement; 0: off.
  std::optional<Metric> metric;  // None: the default; set by LoadClusterConfig.
  float min_improvement = 0.0F;  // Difference that counts as an improvement.
};

// Sum of dense gradients over the ranks.
struct AllReduceConfig {
  enum class Precision { kF32, kBf16, kInt8 };

  Precision precision = Precision::kF32;
  uint32_t bucket_bytes = 1 << 20;  // f32 gradients summed at once.
};

// YAML section `training`.
struct TrainingConfig {
  enum class Mode { kSync, kHybrid, kNaiveHybrid, kAsync };

  Mode mode = Mode::kHybrid;
  uint32_t batch_size = 128;    // Samples per rank; 1 to 65,535.
  uint32_t epochs = 1;          // Times the training data is read; 0: until training is stopped.
  bool drop_last = true;        // Drop a last batch that is not full.
  float keep_negatives = 1.0F;  // Share of negative rows trained on, (0, 1].
  // Maximum number of batches between pull and acknowledged push, 1 to 64; kSync: 1. kAsync: above
  // 1, the dense weights of a step may lack this rank's last gradients.
  uint32_t staleness = 1;
  uint32_t row_age_steps = 0;  // Maximum age of cached rows; below staleness. 0: no cache.
  bool reproducible = false;   // Step t reads exactly the pushes up to step t - staleness.
  bool sums_pushes = false;    // Servers apply the sum of a step's pushes; always in kSync.
  // Whether the pull of step t is sent before the push of step t - 1, which servers wait for.
  bool awaits_pushes() const {
    return staleness == 1 && (mode == Mode::kSync || mode == Mode::kHybrid);
  }
  // Most batches of a rank between the start of the pull and the acknowledged push, but in kAsync.
  uint32_t batches_in_flight() const { return staleness + (awaits_pushes() ? 1 : 0); }
  // Response to a pull. kSmaller: for each batch, rows if they are fewer bytes; always kPooled with
  // another precision than f32, with max pooling, or on a device.
  enum class Embeddings { kPooled, kRows, kSmaller };
  Embeddings embeddings = Embeddings::kSmaller;
  VectorPrecision embedding_precision = VectorPrecision::kF32;  // Embeddings to the nn-worker.
  VectorPrecision gradient_precision = VectorPrecision::kF32;   // Gradients to embedding workers.
  float gradient_scale = 1024.0F;  // kF16: factor of gradients on the wire.
  AllReduceConfig allreduce;
  bool sync_batch_norm = false;  // Statistics over the batches of all ranks.
  DenseOptimizerConfig dense_optimizer;
  uint64_t evaluate_every_steps = 0;   // 0: not by steps.
  uint32_t evaluate_every_epochs = 0;  // 0: not by epochs.
  EarlyStoppingConfig early_stopping;
  std::string auc_group_feature;          // Groups the samples of an evaluation; may be empty.
  uint32_t auc_window_samples = 100'000;  // Samples in the AUC of progress lines.
  uint64_t max_steps = 0;                 // 0: no limit beyond epochs.
  uint32_t max_skipped_steps = 100;       // Dense steps left out in a row that end the run, from 1.
  std::chrono::milliseconds progress_interval{1000};
  std::string tensorboard;                           // Directory of events; empty: none.
  std::chrono::milliseconds retry_deadline{60'000};  // Longest time to retry a failing batch.
  uint32_t loader_queue_batches = 16;                // Batches read ahead per rank.

  uint32_t epoch_limit() const { return epochs == 0 ? UINT32_MAX : epochs; }
};

}  // namespace simurgh
