#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "config/data_config.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"

// The loss and its gradient in one pass, in f64.
namespace simurgh::cuda {

// One formula per task; a kernel argument.
struct LossFormulas {
  LossFormula of[kMaxTasks];
};

// Computes losses, probabilities and gradients. Called for each row.
template <typename T>
struct LossRow {
  LossFormulas formulas;
  Matrix<const float> logits;  // (B, tasks)
  const float* labels;         // (B, tasks)
  const float* weights;        // (B) weights of the samples; null: each is 1.
  double* losses;              // (B) sums over the tasks.
  float* probabilities;        // (B, tasks)
  double samples;              // Divisor of the gradient.
  const float* scale;          // Factor of the gradient; null: 1.
  Matrix<T> gradient;          // (B, tasks) gradient of the mean.

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const double factor = scale == nullptr ? 1.0 : static_cast<double>(*scale);
    const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[row]);
    double sum = 0.0;
    for (size_t task = 0; task < logits.columns; ++task) {
      const size_t place = row * logits.columns + task;
      const double z = logits(row, task);
      const LossFormula& formula = formulas.of[task];
      const double prediction = PredictionOf(formula.kind, z);
      const LossPoint point = formula(z, labels[place], prediction, weight);
      sum += point.loss;
      probabilities[place] = static_cast<float>(prediction);
      Assign(gradient(row, task), static_cast<float>(point.slope / samples * factor));
    }
    losses[row] = sum;
  }
};

// Copies logits to the outputs. Called for each row.
struct OutputRow {
  Matrix<const float> logits;
  float factor;
  float* outputs;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    for (size_t task = 0; task < logits.columns; ++task) {
      outputs[row * logits.columns + task] = logits(row, task) * factor;
    }
  }
};

// A training step's report to the host.
struct StepReport {
  double loss;
  uint32_t not_finite;  // 1 if the loss or a gradient is NaN or infinite, on any rank.
  float loss_scale;     // Scale of this step.
};

// The report of a rank without samples. Called once, before the search for values that are not
// finite.
struct BeginReport {
  StepReport* report;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    report->loss = 0;
    report->not_finite = 0;
    report->loss_scale = 1.0F;
  }
};

SIMURGH_HOST_DEVICE inline bool IsFinite(double value) { return value - value == 0.0; }

// Most sums of losses that one call adds, which costs less than another launch.
inline constexpr size_t kReportedSums = 128;

// Begins the report with the mean of the losses, before the search for gradients that are not
// finite. Called once.
struct ReportLoss {
  const double* losses;  // At most kReportedSums sums of losses.
  size_t count;
  double rows;
  StepReport* report;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    double sum = losses[0];
    for (size_t i = 1; i < count; ++i) sum += losses[i];
    report->loss = sum / rows;
    report->not_finite = IsFinite(report->loss) ? 0 : 1;
    report->loss_scale = 1.0F;
  }
};

// Let a step's ranks agree on whether it counts: each adds 1 if its gradients are not finite.
// Called once.
struct OfferStep {
  const StepReport* report;
  double* failed;

  SIMURGH_HOST_DEVICE void operator()(size_t) const { *failed = report->not_finite; }
};
struct SettleStep {
  const double* failed;
  StepReport* report;

  SIMURGH_HOST_DEVICE void operator()(size_t) const { report->not_finite = *failed > 0 ? 1 : 0; }
};

}  // namespace simurgh::cuda

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

// True if gradients of such elements are scaled.
template <typename T>
inline constexpr bool kIsScaled = std::is_same_v<T, Float16>;

// The last values of a state in f16.
struct LossScale {
  float scale = kFirstLossScale;
  float inverse = 1.0F / kFirstLossScale;
  float steps = 0;  // Steps since the scale changed.
};

inline constexpr size_t kLossScaleValues = sizeof(LossScale) / sizeof(float);

// Updates the scale. Called once, with the complete report. A loss that is not finite leaves the
// scale unchanged.
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

struct Unscale {
  static constexpr size_t kPack = kPackOf<float>;

  const LossScale* scale;
  Matrix<float> values;

  bool Packs() const { return AllPack<kPack>(values); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    auto pack = values.template Load<N>(row, column);
    for (size_t k = 0; k < N; ++k) pack[k] *= scale->inverse;
    values.template Store<N>(row, column, pack);
  }
};

// Rescales sums of gradients before and after they are summed over ranks, whose scales may differ.
// Called for each sum.
struct RescaleSum {
  const float* factor;
  double* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const { sums[i] *= static_cast<double>(*factor); }
};

}  // namespace simurgh::cuda
