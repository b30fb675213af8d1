#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/config/checkpoint_config.h"
#include "simurgh/model/manifest.h"
#include "simurgh/train/train_state.h"

namespace simurgh {

// The checkpoints of a model with the best evaluations of the validation data: at most
// checkpoint.keep_best. Of equal ones the earlier is better.
//
// Threads: any.
class BestCheckpoints {
 public:
  // After ApplyBest.
  explicit BestCheckpoints(const CheckpointConfig& config)
      : count_(config.keep_best), metric_(config.best_by.value_or(EvaluationMetric())) {}

  // Whether evaluations are compared.
  bool enabled() const { return count_ > 0; }

  // Whether a checkpoint of this state would be among them.
  bool Admits(const TrainState& state);
  // The best step once a checkpoint of this state exists; none if none is known.
  std::optional<uint64_t> BestWith(const TrainState& state);

  // Adds a checkpoint that exists, if it is one of the best.
  void Add(const Manifest& manifest);
  // The steps, the best first.
  std::vector<uint64_t> Steps();

 private:
  struct Scored {
    double score;  // Larger is better.
    uint64_t step;
  };

  // The score of an evaluation; none for NaN.
  std::optional<double> ScoreOf(double auc, double log_loss) const;
  std::optional<double> ScoreOf(const TrainState& state) const;

  const size_t count_;
  const EvaluationMetric metric_;
  Mutex mutex_;
  std::vector<Scored> best_ ABSL_GUARDED_BY(mutex_);  // The best first.
};

}  // namespace simurgh
