#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "simurgh/config/embedding_form.h"
#include "simurgh/config/learning_rate.h"
#include "simurgh/config/vector_precision.h"

namespace simurgh {

// The formulas stand in config/README.md.
struct DenseOptimizerConfig {
  enum class Kind { kSgd, kAdam, kAdagrad, kLamb };

  Kind kind = Kind::kSgd;
  float learning_rate = 0.1F;  // > 0
  LearningRateSchedule schedule;

  float momentum = 0.0F;  // sgd
  bool nesterov = false;
  float beta1 = 0.9F;                // adam, lamb
  float beta2 = 0.999F;              // adam, lamb
  float epsilon = 1e-8F;             // All but sgd.
  float initial_accumulator = 0.0F;  // adagrad

  float weight_decay = 0.0F;            // Adds weight_decay * w to the gradient.
  float decoupled_weight_decay = 0.0F;  // Takes learning_rate * this * w off the weight.
  float max_gradient_norm = 0.0F;       // Longer gradients are scaled to this norm; 0: any.
  float average_decay = 0.0F;           // Of the weights' moving average; 0: there is none.
};

// When training ends because it no longer helps: judged by the evaluations on the way.
struct EarlyStoppingConfig {
  enum class Metric { kAuc, kLogLoss };

  uint32_t patience = 0;  // Evaluations in a row that may be no better than the best; 0: off.
  Metric metric = Metric::kAuc;
  float min_improvement = 0.0F;  // What counts as better.
};

// How dense gradients are summed over the ranks.
struct AllReduceConfig {
  enum class Precision { kF32, kBf16, kInt8 };

  Precision precision = Precision::kF32;
  uint32_t bucket_bytes = 1 << 20;  // Of gradients that are summed at once, in f32.
};

// YAML section `training`.
struct TrainingConfig {
  enum class Mode { kSync, kHybrid, kNaiveHybrid, kAsync };

  Mode mode = Mode::kHybrid;
  uint32_t batch_size = 128;    // Of a rank; 1 to 65,535.
  uint32_t epochs = 1;          // Times the training data is read.
  bool drop_last = true;        // Leave out a last batch that is not full.
  float keep_negatives = 1.0F;  // Share of the negative rows that are trained on; above 0, to 1.
  // Batches pulled and not yet acknowledged, at most; 1 to 64; kSync: 1. kAsync: above 1, the dense
  // weights of a step may lack this rank's last gradients.
  uint32_t staleness = 1;
  // Of these, how many the age of rows that embedding workers keep may take; below staleness.
  uint32_t row_age_steps = 0;
  // The pull of step t sees exactly the pushes up to step t - staleness.
  bool reproducible = false;
  EmbeddingForm embeddings = EmbeddingForm::kPooled;            // What pulls answer.
  VectorPrecision embedding_precision = VectorPrecision::kF32;  // On their way to the nn-worker.
  VectorPrecision gradient_precision = VectorPrecision::kF32;   // Of embeddings, on the way back.
  float gradient_scale = 1024.0F;  // kF16: what gradients are multiplied by on that way.
  AllReduceConfig allreduce;
  bool sync_batch_norm = false;  // Batch norm over the batches of all ranks.
  DenseOptimizerConfig dense_optimizer;
  uint64_t evaluate_every_steps = 0;   // 0: not by steps.
  uint32_t evaluate_every_epochs = 0;  // 0: not by epochs.
  EarlyStoppingConfig early_stopping;
  std::string auc_group_feature;  // Whose ids group the samples of an evaluation; may be none.
  uint32_t auc_window_samples = 100'000;  // Of the AUC that is reported while training.
  uint64_t max_steps = 0;                 // 0: no limit beyond epochs.
  std::chrono::milliseconds progress_interval{1000};
  // How long a batch may fail before the run does.
  std::chrono::milliseconds retry_deadline{60'000};
  uint32_t loader_queue_batches = 16;
};

}  // namespace simurgh
