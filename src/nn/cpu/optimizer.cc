#include "nn/cpu/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {
namespace {

using Kind = DenseOptimizerConfig::Kind;

// Values common to all parameters of a step.
struct Step {
  float rate;
  float scale;  // Factor of the gradients.
  float decay;  // Factor of the weight in the gradient.
  float keep;   // Factor of the weight.

  float Gradient(float gradient, float weight) const { return scale * gradient + decay * weight; }
};

// Returns the norm. Sums in f64 and in a fixed order, with several partial sums.
double Norm(std::span<const float> values) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  const size_t whole = values.size() / kSums * kSums;
  for (size_t i = 0; i < whole; i += kSums) {
    for (size_t k = 0; k < kSums; ++k) {
      sums[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
    }
  }
  double sum = 0;
  for (size_t i = whole; i < values.size(); ++i) sum += double{values[i]} * double{values[i]};
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

float ClippingScale(float max_norm, std::span<const float> gradients) {
  if (max_norm == 0.0F) return 1.0F;
  const double norm = Norm(gradients);
  return norm > double{max_norm} ? static_cast<float>(double{max_norm} / norm) : 1.0F;
}

void StepSgd(const Step& step, std::span<float> parameters, std::span<const float> gradients) {
  float* w = parameters.data();
  const float* g = gradients.data();
  for (size_t i = 0; i < parameters.size(); ++i) {
    w[i] = step.keep * w[i] - step.rate * step.Gradient(g[i], w[i]);
  }
}

void StepMomentum(const DenseOptimizerConfig& config, const Step& step, std::span<float> parameters,
                  std::span<const float> gradients, std::span<float> state) {
  float* w = parameters.data();
  float* v = state.data();
  const float momentum = config.momentum;
  // The direction is a * g + b * v.
  const float a = config.nesterov ? 1.0F : 0.0F;
  const float b = config.nesterov ? momentum : 1.0F;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float g = step.Gradient(gradients[i], w[i]);
    v[i] = momentum * v[i] + g;
    w[i] = step.keep * w[i] - step.rate * (a * g + b * v[i]);
  }
}

void StepAdagrad(const DenseOptimizerConfig& config, const Step& step, std::span<float> parameters,
                 std::span<const float> gradients, std::span<float> state) {
  float* w = parameters.data();
  float* s = state.data();
  const float epsilon = config.epsilon;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float g = step.Gradient(gradients[i], w[i]);
    s[i] += g * g;
    w[i] = step.keep * w[i] - step.rate * g / (std::sqrt(s[i]) + epsilon);
  }
}

// The moments of adam and lamb, and the factors of their direction.
struct Moments {
  Moments(const DenseOptimizerConfig& config, size_t count, std::span<float> state)
      : first(state.data() + 1), second(first + count), epsilon(config.epsilon) {
    const double steps = state[0] += 1.0F;
    correction = static_cast<float>(1.0 / (1.0 - std::pow(double{config.beta1}, steps)));
    root_correction =
        static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(double{config.beta2}, steps)));
  }

  void Update(const DenseOptimizerConfig& config, size_t i, float g) const {
    first[i] = config.beta1 * first[i] + (1.0F - config.beta1) * g;
    second[i] = config.beta2 * second[i] + (1.0F - config.beta2) * (g * g);
  }

  float Direction(size_t i) const {
    return correction * first[i] / (std::sqrt(second[i]) * root_correction + epsilon);
  }

  float* first;
  float* second;
  float epsilon;
  float correction;
  float root_correction;
};

void StepAdam(const DenseOptimizerConfig& config, const Step& step, std::span<float> parameters,
              std::span<const float> gradients, std::span<float> state) {
  const DenseOptimizerConfig fixed = config;  // A local copy cannot alias the spans.
  const Moments moments(fixed, parameters.size(), state);
  const Step constants = step;
  float* weights = parameters.data();
  const float* all_gradients = gradients.data();
  ForEachPart(parameters.size(), kPartElements, [=](size_t first, size_t end) {
    float* w = weights;
    const float* g = all_gradients;
    for (size_t i = first; i < end; ++i) {
      moments.Update(fixed, i, constants.Gradient(g[i], w[i]));
      w[i] = constants.keep * w[i] - constants.rate * moments.Direction(i);
    }
  });
}

void StepLamb(const DenseOptimizerConfig& config, const Step& step,
              std::span<const ColumnRange> blocks, std::span<float> parameters,
              std::span<const float> gradients, std::span<float> state) {
  const Moments moments(config, parameters.size(), state);
  const float decay = config.decoupled_weight_decay;
  for (const ColumnRange& block : blocks) {
    const size_t end = block.first + block.count;
    double weight_squares = 0;
    double direction_squares = 0;
    for (size_t i = block.first; i < end; ++i) {
      const float w = parameters[i];
      moments.Update(config, i, step.Gradient(gradients[i], w));
      const float direction = moments.Direction(i) + decay * w;
      weight_squares += double{w} * double{w};
      direction_squares += double{direction} * double{direction};
    }
    const bool scaled = weight_squares > 0 && direction_squares > 0;
    const double trust = scaled ? std::sqrt(weight_squares / direction_squares) : 1.0;
    const auto rate = static_cast<float>(double{step.rate} * trust);
    for (size_t i = block.first; i < end; ++i) {
      parameters[i] -= rate * (moments.Direction(i) + decay * parameters[i]);
    }
  }
}

}  // namespace

size_t OptimizerStateSize(const DenseOptimizerConfig& config, size_t parameter_count) {
  switch (config.kind) {
    case Kind::kSgd:
      return config.momentum > 0.0F ? parameter_count : 0;
    case Kind::kAdagrad:
      return parameter_count;
    case Kind::kAdam:
    case Kind::kLamb:
      return 1 + 2 * parameter_count;
  }
}

void InitializeOptimizerState(const DenseOptimizerConfig& config, std::span<float> state) {
  std::ranges::fill(state, config.kind == Kind::kAdagrad ? config.initial_accumulator : 0.0F);
}

void ApplyOptimizer(const DenseOptimizerConfig& config, float learning_rate,
                    std::span<const ColumnRange> blocks, std::span<float> parameters,
                    std::span<const float> gradients, std::span<float> state) {
  SIMURGH_CHECK_EQ(parameters.size(), gradients.size());
  SIMURGH_CHECK_EQ(state.size(), OptimizerStateSize(config, parameters.size()));
  const Step step{.rate = learning_rate,
                  .scale = ClippingScale(config.max_gradient_norm, gradients),
                  .decay = config.weight_decay,
                  .keep = 1.0F - learning_rate * config.decoupled_weight_decay};
  switch (config.kind) {
    case Kind::kSgd:
    case Kind::kAdagrad:
      return ForEachPart(parameters.size(), kPartElements, [&](size_t first, size_t end) {
        const std::span<float> w = parameters.subspan(first, end - first);
        const std::span<const float> g = gradients.subspan(first, end - first);
        if (state.empty()) return StepSgd(step, w, g);
        const std::span<float> values = state.subspan(first, end - first);
        if (config.kind == Kind::kAdagrad) return StepAdagrad(config, step, w, g, values);
        StepMomentum(config, step, w, g, values);
      });
    case Kind::kAdam:
      return StepAdam(config, step, parameters, gradients, state);
    case Kind::kLamb:
      return StepLamb(config, step, blocks, parameters, gradients, state);
  }
}

void InitializeWeightAverage(std::span<const float> parameters, std::span<float> average) {
  if (average.empty()) return;
  average[0] = 0.0F;
  std::ranges::copy(parameters, average.begin() + 1);
}

void UpdateWeightAverage(float decay, std::span<const float> parameters, std::span<float> average) {
  if (average.empty()) return;
  const float steps = average[0] += 1.0F;
  const float kept = std::min(decay, (1.0F + steps) / (10.0F + steps));
  const float* w = parameters.data();
  float* mean = average.data() + 1;
  for (size_t i = 0; i < parameters.size(); ++i) mean[i] = kept * mean[i] + (1.0F - kept) * w[i];
}

}  // namespace simurgh::cpu
