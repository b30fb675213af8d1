#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/training_config.h"
#include "nn/dense_network.h"

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

  // The values of state() for a number of weights, named and ordered as DenseNetwork::tensors has
  // them for a whole network.
  static std::vector<DenseTensor> Tensors(const DenseOptimizerConfig& config, size_t weights);
  static size_t StateSize(const DenseOptimizerConfig& config, size_t weights);

  // The state of a range of a network's weights consists of these parts of the network's state, in
  // this order.
  struct Part {
    size_t first;
    size_t count;
  };
  static std::vector<Part> PartsOf(const DenseOptimizerConfig& config, size_t weights, size_t first,
                                   size_t count);

  // state: the state of an optimizer that this one continues; empty for none. Requires
  // Check(config), and StateSize() values of state.
  DenseOptimizer(const DenseOptimizerConfig& config, std::span<const float> parameters,
                 std::span<const float> state);

  // learning_rate: see DenseNetwork::ApplyGradients. gradients: as long as parameters().
  // Cost: a pass over parameters, gradients and state on the calling thread.
  void Step(float learning_rate, std::span<const float> gradients);

  std::span<const float> parameters() const { return parameters_; }
  std::span<const float> state() const { return state_; }

 private:
  const DenseOptimizerConfig config_;
  std::vector<float> parameters_;
  std::vector<float> state_;
};

}  // namespace simurgh
