#pragma once

#include <cstddef>
#include <span>

#include "nn/model_plan.h"
#include "simurgh/config/training_config.h"

namespace simurgh::cpu {

// Values that the optimizer of so many parameters keeps between steps. sgd with momentum: the
// velocities. adagrad: the sums of squares. adam, lamb: the number of steps, first moments, second
// moments. (As a float, the number of steps stops at 2^24, where the bias corrections of any usual
// beta have long been 1.)
size_t OptimizerStateSize(const DenseOptimizerConfig& config, size_t parameter_count);

// What they are before the first step.
void InitializeOptimizerState(const DenseOptimizerConfig& config, std::span<float> state);

// One step, with g the gradient, scaled so that the norm of all is at most max_gradient_norm (0:
// any), plus weight_decay * w, and D = 1 - learning_rate * decoupled_weight_decay.
//
// sgd: v = momentum v + g; w = D w - lr v, or of nesterov D w - lr (g + momentum v).
// adagrad: s += g^2; w = D w - lr g / (sqrt(s) + epsilon). Source: Duchi et al., JMLR 12, 2011.
// adam: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w = D w - lr m / (1 - b1^t) / (sqrt(v / (1
// - b2^t)) + epsilon). Source: Kingma and Ba, "Adam", ICLR 2015, algorithm 1; with D, Loshchilov
// and Hutter, "AdamW", ICLR 2019.
// lamb: r = adam's direction + decoupled_weight_decay w; w -= lr r |w| / |r|, by block, where a
// norm that is 0 counts as if both were equal. Source: You et al., "LAMB", ICLR 2020, algorithm 2.
//
// blocks: the tensors that the parameters consist of; only lamb asks.
void ApplyOptimizer(const DenseOptimizerConfig& config, float learning_rate,
                    std::span<const ColumnRange> blocks, std::span<float> parameters,
                    std::span<const float> gradients, std::span<float> state);

}  // namespace simurgh::cpu
