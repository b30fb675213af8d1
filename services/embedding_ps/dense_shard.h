#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "nn/dense_optimizer.h"
#include "services/api/dense_rpc.h"

namespace simurgh {

// A server's range of the dense weights and optimizer state, for each of the last kMaxRuns runs. A
// push is applied on arrival, without waiting for other ranks. A push with NaN or infinite
// gradients is acknowledged without effect.
//
// Errors: DATA_LOSS when the server has lost state of the run; INVALID_ARGUMENT for a range of
// another length, a bad learning rate or optimizer. Threads: one owner.
class DenseShard {
 public:
  static constexpr size_t kMaxRuns = 2;
  static constexpr uint64_t kMaxFloats = uint64_t{1} << 28;        // Most weights of a run.
  static constexpr uint64_t kMaxStateFloats = 2 * kMaxFloats + 1;  // The size of Adam's state.

  // on_not_finite: gets each push that is dropped.
  explicit DenseShard(std::function<void(const PushDenseCall&)> on_not_finite)
      : on_not_finite_(std::move(on_not_finite)) {}

  // Sets the initial weights of the run, unless it has weights already.
  StatusOr<DenseAnswer> Start(const StartDenseCall& call);
  StatusOr<DenseAnswer> Pull(const PullDenseCall& call);
  // A rank sends its pushes one at a time, in the order of their numbers. The last push may be
  // repeated and is then acknowledged without effect.
  StatusOr<DenseAnswer> Push(const PushDenseCall& call);

  // Length of the longest range or state.
  size_t longest() const;

 private:
  struct Rank {
    uint64_t pushes = 0;  // Applied so far; also the number of the next one.
    DenseAnswer last;
  };

  struct Run {
    Run(uint64_t number, const DenseOptimizerConfig& config, std::span<const float> parameters,
        std::span<const float> state)
        : run(number), optimizer(config, parameters, state) {}

    uint64_t run;
    DenseOptimizer optimizer;
    uint64_t version = 0;
    std::vector<Rank> ranks;
  };

  // Errors: DATA_LOSS for an unknown run, INVALID_ARGUMENT for another length of the weights, or
  // of the optimizer's state.
  StatusOr<Run*> Find(uint64_t run, size_t length, bool of_state = false);

  const std::function<void(const PushDenseCall&)> on_not_finite_;
  std::list<Run> runs_;  // The latest run first.
};

}  // namespace simurgh
