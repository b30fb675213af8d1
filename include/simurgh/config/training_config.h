#pragma once

#include <chrono>
#include <cstdint>

namespace simurgh {

struct DenseOptimizerConfig {
  enum class Kind { kSgd, kAdam };

  Kind kind = Kind::kSgd;
  float learning_rate = 0.1F;  // > 0
  float beta1 = 0.9F;          // adam
  float beta2 = 0.999F;        // adam
  float epsilon = 1e-8F;       // adam
};

// YAML section `training`.
struct TrainingConfig {
  uint32_t batch_size = 128;    // 1 to 65,535
  uint32_t passes = 1;          // Times the training data is read.
  bool drop_last = true;        // Leave out a last batch that is not full.
  float keep_negatives = 1.0F;  // Share of the negative rows that are trained on; above 0, to 1.
  uint32_t staleness = 1;       // Batches pulled and not yet acknowledged, at most; 1 to 64.
  // The pull of step t sees exactly the pushes up to step t - staleness.
  bool reproducible = false;
  DenseOptimizerConfig dense_optimizer;
  uint64_t evaluate_every_steps = 0;  // 0: only at the end.
  uint64_t max_steps = 0;             // 0: no limit beyond passes.
  std::chrono::milliseconds progress_interval{1000};
  // How long a batch may fail before the run does.
  std::chrono::milliseconds retry_deadline{60'000};
  uint32_t loader_queue_batches = 16;
};

}  // namespace simurgh
