#pragma once

#include <cstddef>
#include <span>

#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

// Elementwise layers. All spans of one call have one length; outputs are overwritten.
namespace simurgh::cpu {

template <typename Formula>
void ActivationForward(std::span<const float> input, std::span<float> output) {
  ForEachPart(input.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) output[i] = Formula::Value(input[i]);
  });
}

// saved: see formulas.h.
template <typename Formula>
void ActivationBackward(std::span<const float> saved, std::span<const float> output_gradient,
                        std::span<float> input_gradient) {
  ForEachPart(saved.size(), kPartElements, [=](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      input_gradient[i] = Formula::Gradient(saved[i], output_gradient[i]);
    }
  });
}

}  // namespace simurgh::cpu
