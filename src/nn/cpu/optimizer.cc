#include "nn/cpu/optimizer.h"

#include <cmath>

#include "simurgh/base/check.h"

namespace simurgh::cpu {
namespace {

void StepSgd(float learning_rate, std::span<float> parameters, std::span<const float> gradients) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= learning_rate * gradients[i];
}

void StepAdam(const DenseOptimizerConfig& config, std::span<float> parameters,
              std::span<const float> gradients, std::span<float> state) {
  const size_t count = parameters.size();
  float& steps = state[0];
  steps += 1.0F;
  float* m = state.data() + 1;
  float* v = m + count;
  float* w = parameters.data();
  const float* g = gradients.data();

  const double correction1 = 1.0 - std::pow(double{config.beta1}, double{steps});
  const double correction2 = 1.0 - std::pow(double{config.beta2}, double{steps});
  const auto step_size = static_cast<float>(double{config.learning_rate} / correction1);
  const auto root_correction = static_cast<float>(1.0 / std::sqrt(correction2));
  const float beta1 = config.beta1;
  const float beta2 = config.beta2;
  const float epsilon = config.epsilon;
  for (size_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + (1.0F - beta1) * g[i];
    v[i] = beta2 * v[i] + (1.0F - beta2) * (g[i] * g[i]);
    w[i] -= step_size * m[i] / (std::sqrt(v[i]) * root_correction + epsilon);
  }
}

}  // namespace

size_t OptimizerStateSize(const DenseOptimizerConfig& config, size_t parameter_count) {
  return config.kind == DenseOptimizerConfig::Kind::kAdam ? 1 + 2 * parameter_count : 0;
}

void ApplyOptimizer(const DenseOptimizerConfig& config, std::span<float> parameters,
                    std::span<const float> gradients, std::span<float> state) {
  SIMURGH_CHECK_EQ(parameters.size(), gradients.size());
  SIMURGH_CHECK_EQ(state.size(), OptimizerStateSize(config, parameters.size()));
  switch (config.kind) {
    case DenseOptimizerConfig::Kind::kSgd:
      return StepSgd(config.learning_rate, parameters, gradients);
    case DenseOptimizerConfig::Kind::kAdam:
      return StepAdam(config, parameters, gradients, state);
  }
}

}  // namespace simurgh::cpu
