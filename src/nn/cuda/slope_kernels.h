#pragma once

#include <cstddef>

#include "nn/formulas.h"
#include "nn/host_device.h"

// Activations with a learned slope for each column: prelu and dice. Functions of map_kernels.h.
namespace simurgh::cuda {

struct PreluValue {
  const float* slope;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x) const {
    return PreluFormula::Value(x, slope[c]);
  }
};

// The gradient of the input.
struct PreluGradient {
  const float* slope;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x, float dy) const {
    return PreluFormula::Gradient(x, slope[c], dy);
  }
};

// The terms of the slopes' gradient.
struct PreluSlopeGradient {
  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t /*c*/, float x, float dy) const {
    return PreluFormula::SlopeGradient(x, dy);
  }
};

// Arrays of a value for each column. `inverse` is the inverse of the deviation.
struct DiceParameters {
  const float* slope;
  const float* mean;
  const float* inverse;

  // Returns the normalised input.
  SIMURGH_HOST_DEVICE float Normalised(float x, size_t column) const {
    return (x - mean[column]) * inverse[column];
  }
};

struct DiceValue {
  DiceParameters of;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x) const {
    return DiceFormula::Value(x, of.Normalised(x, c), of.slope[c]);
  }
};

// A sum over the batch that the backward pass of dice needs.
enum class DiceSum {
  kSlope,                 // Gradient of the slope.
  kNormalised,            // Gradient of the normalised input.
  kNormalisedTimesInput,  // Product of that gradient and the normalised input.
};

template <DiceSum kSum>
struct DiceTerm {
  DiceParameters of;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x, float dy) const {
    const float z = of.Normalised(x, c);
    if constexpr (kSum == DiceSum::kSlope) {
      return DiceFormula::SlopeGradient(x, z, dy);
    } else {
      const float dz = DiceFormula::NormalisedGradient(x, z, of.slope[c], dy);
      return kSum == DiceSum::kNormalised ? dz : dz * z;
    }
  }
};

// Computes the gradient of the input from the means over the batch, or over all ranks' batches, of
// the gradient of the normalised input, and of that times the normalised input.
struct DiceGradient {
  DiceParameters of;
  const float* means;             // (C)
  const float* normalised_means;  // (C)

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x, float dy) const {
    const float z = of.Normalised(x, c);
    const float dz = DiceFormula::NormalisedGradient(x, z, of.slope[c], dy);
    return DiceFormula::Gradient(z, of.slope[c], dy) +
           of.inverse[c] * (dz - means[c] - z * normalised_means[c]);
  }
};

}  // namespace simurgh::cuda
