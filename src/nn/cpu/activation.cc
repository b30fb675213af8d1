#include "nn/cpu/activation.h"

#include <cmath>
#include <cstddef>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {
namespace {

constexpr float kGeluRate = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which is precise where tanh is near -1.
float GeluGate(float x) {
  return 1.0F / (1.0F + std::exp(-kGeluRate * (x + kGeluCubic * x * x * x)));
}

}  // namespace

void ReluForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = input[i] < 0.0F ? 0.0F : input[i];
  });
}

void ReluBackward(std::span<const float> output, std::span<const float> output_gradient,
                  std::span<float> input_gradient) {
  ForEachPart(output.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const float gradient = output_gradient[i];  // An unconditional read avoids a branch.
      input_gradient[i] = output[i] > 0.0F ? gradient : 0.0F;
    }
  });
}

void GeluForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = input[i] * GeluGate(input[i]);
  });
}

void GeluBackward(std::span<const float> input, std::span<const float> output_gradient,
                  std::span<float> input_gradient) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const float x = input[i];
      const float gate = GeluGate(x);
      const float rate = kGeluRate * (1.0F + 3.0F * kGeluCubic * x * x);
      input_gradient[i] = output_gradient[i] * (gate + x * gate * (1.0F - gate) * rate);
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
