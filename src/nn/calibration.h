#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/calibration.h"
#include "config/model_config.h"

namespace simurgh {

// Replaces the outputs z of a network, (B, tasks) row by row, by the predictions of LossConfig.
//
// kept_negatives: training had all positives and this share k of the negatives. ln k is added to z,
// which makes p / (p + (1 - p) / k) of the probability p. 1 with a regression.
// calibrations: by task, applied to z + ln k; empty: none.
// Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014.
void ToPredictions(std::span<const TaskConfig> tasks, double kept_negatives,
                   std::span<const Calibration> calibrations, std::span<float> outputs);

// A sample of a binary label, for a fit.
struct LabelledOutput {
  float output = 0;  // z + ln k, see ToPredictions().
  float label = 0;   // 0 or 1.
  float weight = 1;
};

struct FittedCalibration {
  Calibration calibration;
  double log_loss = 0;  // Log loss of the samples with this calibration.
  std::string problem;  // Why there is no fit; the calibration then has no effect.
};

// Fits the calibration that minimizes the log loss of all ranks' samples, with a prior for equal
// slopes. The slopes are equal unless the samples tell them apart. If no slopes above 0 minimize
// the loss, or the fit is no better than no calibration, it keeps the order of the samples, too.
//
// own: this rank's samples. sum: replaces values by their sums over the ranks.
// Source: Kull, Silva Filho and Flach, "Beta calibration", AISTATS 2017. Platt, "Probabilistic
// outputs for support vector machines", 1999, for equal slopes and the targets of labels. The
// Newton method of Lin, Lin and Weng, "A note on Platt's probabilistic outputs for support vector
// machines", Machine Learning 68, 2007. Schwarz, "Estimating the dimension of a model", Annals of
// Statistics 6, 1978, for the choice between the two.
// Errors: those of `sum`.
StatusOr<FittedCalibration> FitCalibration(std::span<const LabelledOutput> own,
                                           absl::FunctionRef<Status(std::span<double>)> sum);

}  // namespace simurgh
