#pragma once

#include <cstddef>
#include <type_traits>

#include "nn/cuda/float16.h"
#include "nn/cuda/loss_kernels.h"
#include "nn/cuda/reduction_kernels.h"

// Loss scaling. f16 cannot represent gradients below 2^-24, so the backward pass multiplies the
// loss's gradient by a scale and divides the resulting f32 gradients by it. The scale is a power of
// two, which loses no precision. A step whose gradients are not finite halves it, and
// kScaleGrowthSteps finite steps double it.
// Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2.
namespace simurgh::cuda {

inline constexpr float kFirstLossScale = 65'536.0F;
inline constexpr float kMinLossScale = 1.0F;
inline constexpr float kMaxLossScale = 16'777'216.0F;
inline constexpr float kScaleGrowthSteps = 2'000;

// Whether gradients of such elements are scaled.
template <typename T>
inline constexpr bool kIsScaled = std::is_same_v<T, Float16>;

// The last values of a state in f16.
struct LossScale {
  float scale = kFirstLossScale;
  float inverse = 1.0F / kFirstLossScale;
  float steps = 0;  // Since it changed.
};

inline constexpr size_t kLossScaleValues = sizeof(LossScale) / sizeof(float);

// Called once, with the complete report. A loss that is not finite leaves the scale unchanged.
struct UpdateLossScale {
  StepReport* report;
  LossScale* state;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    report->loss_scale = state->scale;
    if (!IsFinite(static_cast<float>(report->loss))) return;
    float factor = 1.0F;
    if (report->not_finite != 0) {
      factor = state->scale > kMinLossScale ? 0.5F : 1.0F;
      state->steps = 0;
    } else if (++state->steps >= kScaleGrowthSteps) {
      factor = state->scale < kMaxLossScale ? 2.0F : 1.0F;
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

// Rescales sums of gradients before and after they are summed over ranks, whose scales may differ.
// Called for each sum.
struct RescaleSum {
  const float* factor;
  double* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const { sums[i] *= static_cast<double>(*factor); }
};

}  // namespace simurgh::cuda
