#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nn/cuda/float16.h"
#include "nn/cuda/loss_kernels.h"
#include "nn/cuda/reduction_kernels.h"

// Loss scaling. f16 has no room for gradients below 2^-24, so the loss's gradient is multiplied by
// a scale on its way back through the layers, and each f32 gradient that leaves them is divided by
// it. The scale is a power of two, so that only f16's range knows of it; it lives on the device, is
// halved by each step whose gradients are not finite, and doubled after kScaleGrowthSteps others.
// Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2.
namespace simurgh::cuda {

inline constexpr float kFirstLossScale = 65'536.0F;
inline constexpr float kLeastLossScale = 1.0F;
inline constexpr float kLargestLossScale = 16'777'216.0F;
inline constexpr uint32_t kScaleGrowthSteps = 2'000;

// Whether gradients of such elements are scaled.
template <typename T>
inline constexpr bool kIsScaled = std::is_same_v<T, Float16>;

// In device memory.
struct LossScale {
  float scale = kFirstLossScale;
  float inverse = 1.0F / kFirstLossScale;
  uint32_t steps = 0;  // Since it changed.
};

// Called once, when the report is complete. A loss that is not finite itself says nothing of the
// scale.
struct UpdateLossScale {
  StepReport* report;
  LossScale* state;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    report->loss_scale = state->scale;
    if (!IsFinite(static_cast<float>(report->loss))) return;
    float factor = 1.0F;
    if (report->not_finite != 0) {
      factor = state->scale > kLeastLossScale ? 0.5F : 1.0F;
      state->steps = 0;
    } else if (++state->steps >= kScaleGrowthSteps) {
      factor = state->scale < kLargestLossScale ? 2.0F : 1.0F;
      state->steps = 0;
    }
    state->scale *= factor;
    state->inverse /= factor;
  }
};

// Called for each value.
struct Unscale {
  const LossScale* scale;
  float* values;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const { values[i] *= scale->inverse; }
};

// Sums of gradients, on their way to other ranks, whose scales may be others, and back. Called for
// each sum.
struct RescaleSum {
  const float* factor;
  double* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const { sums[i] *= static_cast<double>(*factor); }
};

}  // namespace simurgh::cuda
