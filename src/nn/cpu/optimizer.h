#pragma once

#include <cstddef>
#include <span>

#include "config/training_config.h"
#include "nn/model_plan.h"

namespace simurgh::cpu {

// Number of values that the optimizer keeps between steps. sgd with momentum: velocities. adagrad:
// sums of squares. adam, lamb: the number of steps, first moments, second moments. The number of
// steps is a float and stops at 2^24, where bias corrections of usual betas are 1.
size_t OptimizerStateSize(const DenseOptimizerConfig& config, size_t parameter_count);

void InitializeOptimizerState(const DenseOptimizerConfig& config, std::span<float> state);

// Applies one step. g is the gradient, scaled down to a norm of at most max_gradient_norm (0: no
// limit), plus weight_decay * w; D = 1 - learning_rate * decoupled_weight_decay.
//
// sgd: v = momentum v + g; w = D w - lr v, or with nesterov D w - lr (g + momentum v).
// adagrad: s += g^2; w = D w - lr g / (sqrt(s) + epsilon). Source: Duchi et al., JMLR 12, 2011.
// adam: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w = D w - lr m / (1 - b1^t) / (sqrt(v / (1
// - b2^t)) + epsilon). Source: Kingma and Ba, "Adam", ICLR 2015, algorithm 1; with D, Loshchilov
// and Hutter, "AdamW", ICLR 2019.
// lamb: r = adam's direction + decoupled_weight_decay w; w -= lr r |w| / |r|, by block; the ratio
// is 1 if a norm is 0. Source: You et al., "LAMB", ICLR 2020, algorithm 2.
//
// blocks: the parameter tensors, used by lamb.
void ApplyOptimizer(const DenseOptimizerConfig& config, float learning_rate,
                    std::span<const ColumnRange> blocks, std::span<float> parameters,
                    std::span<const float> gradients, std::span<float> state);

// Values of an exponential moving average of the weights: the number of steps, then the averages.
inline size_t WeightAverageSize(float decay, size_t parameter_count) {
  return decay > 0.0F ? 1 + parameter_count : 0;
}

// Sets the averages to the weights.
void InitializeWeightAverage(std::span<const float> parameters, std::span<float> average);

// After step t, from 1: average = d average + (1 - d) w, with d = min(decay, (1 + t) / (10 + t)),
// which quickly forgets the first weights.
void UpdateWeightAverage(float decay, std::span<const float> parameters, std::span<float> average);

}  // namespace simurgh::cpu
