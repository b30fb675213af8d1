#pragma once

#include <cstddef>
#include <span>

#include "simurgh/config/training_config.h"

namespace simurgh::cpu {

// Values that the optimizer of so many parameters keeps between steps; all 0 before the first. sgd:
// none. adam: the number of steps, first moments, second moments. (As a float, the number of steps
// stops at 2^24, where the bias corrections of any usual beta have long been 1.)
size_t OptimizerStateSize(const DenseOptimizerConfig& config, size_t parameter_count);

// One step.
// sgd: w -= lr * g.
// adam: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= lr m / (1 - b1^t) / (sqrt(v / (1 -
// b2^t)) + epsilon). Source: Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
void ApplyOptimizer(const DenseOptimizerConfig& config, std::span<float> parameters,
                    std::span<const float> gradients, std::span<float> state);

}  // namespace simurgh::cpu
