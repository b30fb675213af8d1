#include "nn/cpu/activation.h"

#include <cmath>
#include <cstddef>

namespace simurgh::cpu {

void ReluForward(std::span<const float> input, std::span<float> output) {
  for (size_t i = 0; i < input.size(); ++i) output[i] = input[i] < 0.0F ? 0.0F : input[i];
}

void ReluBackward(std::span<const float> output, std::span<const float> output_gradient,
                  std::span<float> input_gradient) {
  for (size_t i = 0; i < output.size(); ++i) {
    const float gradient = output_gradient[i];  // Read in any case, so that the loop has no branch.
    input_gradient[i] = output[i] > 0.0F ? gradient : 0.0F;
  }
}

void SigmoidForward(std::span<const float> input, std::span<float> output) {
  for (size_t i = 0; i < input.size(); ++i) output[i] = 1.0F / (1.0F + std::exp(-input[i]));
}

void SigmoidBackward(std::span<const float> output, std::span<const float> output_gradient,
                     std::span<float> input_gradient) {
  for (size_t i = 0; i < output.size(); ++i) {
    input_gradient[i] = output_gradient[i] * (output[i] * (1.0F - output[i]));
  }
}

}  // namespace simurgh::cpu
