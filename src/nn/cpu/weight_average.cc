#include "nn/cpu/weight_average.h"

#include <algorithm>

namespace simurgh::cpu {

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
