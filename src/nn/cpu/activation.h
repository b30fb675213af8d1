#pragma once

#include <span>

// Elementwise layers. All spans of one call have one length; outputs are overwritten.
namespace simurgh::cpu {

// max(x, 0). NaN stays NaN, which makes the loss NaN.
void ReluForward(std::span<const float> input, std::span<float> output);
void ReluBackward(std::span<const float> output, std::span<const float> output_gradient,
                  std::span<float> input_gradient);

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). Backward reads the input.
// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
void GeluForward(std::span<const float> input, std::span<float> output);
void GeluBackward(std::span<const float> input, std::span<const float> output_gradient,
                  std::span<float> input_gradient);

// 1 / (1 + exp(-x))
void SigmoidForward(std::span<const float> input, std::span<float> output);
void SigmoidBackward(std::span<const float> output, std::span<const float> output_gradient,
                     std::span<float> input_gradient);

}  // namespace simurgh::cpu
