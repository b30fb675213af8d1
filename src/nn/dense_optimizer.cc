#include "simurgh/nn/dense_optimizer.h"

#include <cmath>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/optimizer.h"
#include "simurgh/base/check.h"

namespace simurgh {

Status DenseOptimizer::Check(const DenseOptimizerConfig& config) {
  if (config.kind == DenseOptimizerConfig::Kind::kLamb || config.max_gradient_norm != 0.0F ||
      config.average_decay != 0.0F) {
    return absl::InvalidArgumentError(
        "dense optimizer: lamb, max_gradient_norm and average_decay are not supported, because "
        "they need all weights at once");
  }
  const auto is_share = [](float value) { return value >= 0.0F && value < 1.0F; };
  const auto is_size = [](float value) { return std::isfinite(value) && value >= 0.0F; };
  if (is_share(config.momentum) && is_share(config.beta1) && is_share(config.beta2) &&
      is_size(config.epsilon) && is_size(config.initial_accumulator) &&
      is_size(config.weight_decay) && is_size(config.decoupled_weight_decay)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("dense optimizer: a value is out of range");
}

DenseOptimizer::DenseOptimizer(const DenseOptimizerConfig& config,
                               std::span<const float> parameters)
    : config_(config),
      parameters_(parameters.begin(), parameters.end()),
      state_(cpu::OptimizerStateSize(config, parameters.size())) {
  SIMURGH_CHECK(Check(config).ok());
  cpu::InitializeOptimizerState(config, state_);
}

void DenseOptimizer::Step(float learning_rate, std::span<const float> gradients) {
  cpu::SetComputeThreads(1);
  cpu::ApplyOptimizer(config_, learning_rate, {}, parameters_, gradients, state_);
}

}  // namespace simurgh
