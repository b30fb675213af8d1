#pragma once

#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/training_config.h"

namespace simurgh {

// The optimizer of a range of a network's flat weights where the network is not: on a server. What
// it makes of a range is to the bit what the network makes of it with the same optimizer.
//
// Threads: one owner.
class DenseOptimizer {
 public:
  // Errors: INVALID_ARGUMENT for an optimizer for which an element does not depend on it alone
  // (lamb, max_gradient_norm, average_decay), or whose numbers are out of range.
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
