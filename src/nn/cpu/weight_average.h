#pragma once

#include <cstddef>
#include <span>

namespace simurgh::cpu {

// An exponential moving average of the weights. Its values: the number of steps, then the average
// of each weight.
inline size_t WeightAverageSize(float decay, size_t parameter_count) {
  return decay > 0.0F ? 1 + parameter_count : 0;
}

// Before the first step: the weights themselves.
void InitializeWeightAverage(std::span<const float> parameters, std::span<float> average);

// After step t, from 1: average = d average + (1 - d) w, with d = min(decay, (1 + t) / (10 + t)),
// so that the first weights are soon forgotten.
void UpdateWeightAverage(float decay, std::span<const float> parameters, std::span<float> average);

}  // namespace simurgh::cpu
