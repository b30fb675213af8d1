#pragma once

#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/training_config.h"

namespace simurgh {

// Optimizes a range of a network's flat weights on a server, with the same bits as the network's
// own optimizer.
//
// Threads: one owner.
class DenseOptimizer {
 public:
  // Errors: INVALID_ARGUMENT for an optimizer that does not update each weight independently (lamb,
  // max_gradient_norm, average_decay), or with values out of range.
  static Status Check(const DenseOptimizerConfig& config);

  // Requires Check(config).
  DenseOptimizer(const DenseOptimizerConfig& config, std::span<const float> parameters);

  // learning_rate: as DenseNetwork::ApplyGradients. gradients: as long as parameters().
  // Cost: a pass over parameters, gradients and state on the calling thread.
  void Step(float learning_rate, std::span<const float> gradients);

  std::span<const float> parameters() const { return parameters_; }

 private:
  const DenseOptimizerConfig config_;
  std::vector<float> parameters_;
  std::vector<float> state_;
};

}  // namespace simurgh
