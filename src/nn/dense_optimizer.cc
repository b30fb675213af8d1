#include "nn/dense_optimizer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/optimizer.h"
#include "nn/dense_tensors.h"

namespace simurgh {

Status DenseOptimizer::Check(const DenseOptimizerConfig& config) {
  if (config.kind == DenseOptimizerConfig::Kind::kLamb || config.max_gradient_norm != 0.0F ||
      config.average_decay != 0.0F) {
    return absl::InvalidArgumentError(
        "dense optimizer: lamb, max_gradient_norm and average_decay are not supported, because "
        "they need all weights at once");
  }
  const auto problem = [](const char* name, float value, const char* allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense optimizer: ", name, ": ", value, " is out of range; use ", allowed));
  };
  for (const auto& [name, value] :
       {std::pair("momentum", config.momentum), std::pair("beta1", config.beta1),
        std::pair("beta2", config.beta2)}) {
    if (!(value >= 0.0F && value < 1.0F)) return problem(name, value, "0 to below 1");
  }
  for (const auto& [name, value] :
       {std::pair("epsilon", config.epsilon),
        std::pair("initial_accumulator", config.initial_accumulator),
        std::pair("weight_decay", config.weight_decay),
        std::pair("decoupled_weight_decay", config.decoupled_weight_decay)}) {
    if (!std::isfinite(value) || value < 0.0F)
      return problem(name, value, "a finite number from 0");
  }
  return absl::OkStatus();
}

std::vector<DenseTensor> DenseOptimizer::Tensors(const DenseOptimizerConfig& config,
                                                 size_t weights) {
  return OptimizerTensors(config, weights);
}

size_t DenseOptimizer::StateSize(const DenseOptimizerConfig& config, size_t weights) {
  return cpu::OptimizerStateSize(config, weights);
}

std::vector<DenseOptimizer::Part> DenseOptimizer::PartsOf(const DenseOptimizerConfig& config,
                                                          size_t weights, size_t first,
                                                          size_t count) {
  // Single values, such as the number of steps, precede those of each weight.
  const size_t singles = StateSize(config, 0);
  const size_t arrays = StateSize(config, 1) - singles;
  std::vector<Part> parts;
  if (singles > 0) parts.push_back({0, singles});
  for (size_t i = 0; i < arrays; ++i) parts.push_back({singles + i * weights + first, count});
  return parts;
}

DenseOptimizer::DenseOptimizer(const DenseOptimizerConfig& config,
                               std::span<const float> parameters, std::span<const float> state)
    : config_(config),
      parameters_(parameters.begin(), parameters.end()),
      state_(state.begin(), state.end()) {
  SIMURGH_CHECK(Check(config).ok());
  const size_t size = StateSize(config, parameters.size());
  if (state.empty() && size > 0) {
    state_.resize(size);
    cpu::InitializeOptimizerState(config, state_);
  }
  SIMURGH_CHECK_EQ(state_.size(), size);
}

void DenseOptimizer::Step(float learning_rate, std::span<const float> gradients) {
  cpu::SetComputeThreads(1);
  cpu::ApplyOptimizer(config_, learning_rate, {}, parameters_, gradients, state_);
}

}  // namespace simurgh
