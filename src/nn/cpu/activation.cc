#include "nn/cpu/activation.h"

#include <cmath>
#include <cstddef>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {

void ReluForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = input[i] < 0.0F ? 0.0F : input[i];
  });
}

void ReluBackward(std::span<const float> output, std::span<const float> output_gradient,
                  std::span<float> input_gradient) {
  ForEachPart(output.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const float gradient = output_gradient[i];  // Read in any case: the loop has no branch then.
      input_gradient[i] = output[i] > 0.0F ? gradient : 0.0F;
    }
  });
}

void SigmoidForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = 1.0F / (1.0F + std::exp(-input[i]));
  });
}

void SigmoidBackward(std::span<const float> output, std::span<const float> output_gradient,
                     std::span<float> input_gradient) {
  ForEachPart(output.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      input_gradient[i] = output_gradient[i] * (output[i] * (1.0F - output[i]));
    }
  });
}

}  // namespace simurgh::cpu
