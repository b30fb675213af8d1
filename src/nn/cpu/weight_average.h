#pragma once

#include <cstddef>
#include <span>

namespace simurgh::cpu {

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
