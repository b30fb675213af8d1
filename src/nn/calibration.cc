#include "simurgh/nn/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "nn/formulas.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Samples of each label value that a fit needs.
constexpr double kMinSamples = 10;
// Smallest deviation of calibrated outputs: what a model without knowledge gets.
constexpr double kMinDeviation = 0.01;
// Largest output that counts: beyond it, no float has a probability.
constexpr double kMaxOutput = 1e6;

using Sum = absl::FunctionRef<Status(std::span<double>)>;

// Counts and moments of the samples with a weight.
struct Moments {
  double positives = 0;  // Samples.
  double negatives = 0;
  double weight = 0;
  double mean = 0;  // Of the outputs, weighted like the deviation.
  double deviation = 0;
};

double OutputOf(const LabelledOutput& sample) {
  return std::clamp(double{sample.output}, -kMaxOutput, kMaxOutput);
}

StatusOr<Moments> MomentsOf(std::span<const LabelledOutput> own, Sum sum) {
  std::array<double, 4> sums{};
  for (const LabelledOutput& sample : own) {
    if (sample.weight == 0) continue;
    sums[sample.label > 0.5F ? 0 : 1] += 1;
    sums[2] += sample.weight;
    sums[3] += sample.weight * OutputOf(sample);
  }
  SIMURGH_RETURN_IF_ERROR(sum(sums));
  Moments moments{.positives = sums[0], .negatives = sums[1], .weight = sums[2]};
  moments.mean = sums[3] / sums[2];
  double squares = 0;
  for (const LabelledOutput& sample : own) {
    const double distance = OutputOf(sample) - moments.mean;
    squares += sample.weight * distance * distance;
  }
  SIMURGH_RETURN_IF_ERROR(sum({&squares, 1}));
  moments.deviation = std::sqrt(squares / moments.weight);
  return moments;
}

// The log loss of a calibration, and its derivatives by scale and shift.
struct LossAt {
  double loss = 0;
  std::array<double, 2> slope{};
  std::array<double, 3> curvature{};  // By scale, scale and shift, shift.
};

// Minimizes the log loss over outputs of mean 0 and deviation 1.
class PlattFit {
 public:
  PlattFit(std::span<const LabelledOutput> own, const Moments& moments, Sum sum)
      : own_(own),
        moments_(moments),
        sum_(sum),
        positive_target_((moments.positives + 1) / (moments.positives + 2)),
        negative_target_(1 / (moments.negatives + 2)) {}

  // Means. smooths: with Platt's targets in place of the labels.
  StatusOr<LossAt> At(const Calibration& calibration, bool smooths) const {
    std::array<double, 6> sums{};
    for (const LabelledOutput& sample : own_) {
      const double u = (OutputOf(sample) - moments_.mean) / deviation();
      const double z = calibration.scale * u + calibration.shift;
      const bool is_positive = sample.label > 0.5F;
      const double smooth = is_positive ? positive_target_ : negative_target_;
      const double target = smooths ? smooth : is_positive ? 1.0 : 0.0;
      const double decay = std::exp(-std::abs(z));
      const double p = Probability(z, decay);
      const double w = sample.weight / moments_.weight;
      sums[0] += w * (std::max(z, 0.0) + std::log1p(decay) - target * z);
      sums[1] += w * (p - target) * u;
      sums[2] += w * (p - target);
      const double curvature = w * p * (1 - p);
      sums[3] += curvature * u * u;
      sums[4] += curvature * u;
      sums[5] += curvature;
    }
    SIMURGH_RETURN_IF_ERROR(sum_(sums));
    return LossAt{sums[0], {sums[1], sums[2]}, {sums[3], sums[4], sums[5]}};
  }

  // start: its scale stays if it is_fixed.
  StatusOr<Calibration> Minimize(Calibration start, bool is_fixed) const {
    constexpr int kMaxSteps = 100;
    constexpr double kFlat = 1e-10;
    constexpr double kSmallestPart = 1e-10;
    SIMURGH_ASSIGN_OR_RETURN(LossAt at, At(start, /*smooths=*/true));
    for (int i = 0; i < kMaxSteps; ++i) {
      if (is_fixed) at.slope[0] = 0;
      if (std::hypot(at.slope[0], at.slope[1]) < kFlat) break;
      const std::array<double, 2> step = StepOf(at, is_fixed);
      const double descent = at.slope[0] * step[0] + at.slope[1] * step[1];
      double part = 1;
      for (; part > kSmallestPart; part /= 2) {
        const Calibration next{start.scale + part * step[0], start.shift + part * step[1]};
        SIMURGH_ASSIGN_OR_RETURN(const LossAt there, At(next, /*smooths=*/true));
        if (there.loss > at.loss + 1e-4 * part * descent) continue;
        start = next;
        at = there;
        break;
      }
      if (part <= kSmallestPart) break;  // Rounding hides what is left.
    }
    return start;
  }

  // Of outputs as they are, and the other way.
  Calibration Scaled(const Calibration& standard) const {
    const double scale = standard.scale / deviation();
    return {scale, standard.shift - scale * moments_.mean};
  }
  Calibration Standard(const Calibration& scaled) const {
    return {scaled.scale * deviation(), scaled.shift + scaled.scale * moments_.mean};
  }

 private:
  // The Newton step.
  static std::array<double, 2> StepOf(const LossAt& at, bool is_fixed) {
    constexpr double kRidge = 1e-12;
    const double a = at.curvature[0] + kRidge;
    const double c = at.curvature[2] + kRidge;
    if (is_fixed) return {0, -at.slope[1] / c};
    const double b = at.curvature[1];
    const double determinant = a * c - b * b;
    return {-(c * at.slope[0] - b * at.slope[1]) / determinant,
            -(a * at.slope[1] - b * at.slope[0]) / determinant};
  }

  double deviation() const { return moments_.deviation > 0 ? moments_.deviation : 1; }

  const std::span<const LabelledOutput> own_;
  const Moments& moments_;
  const Sum sum_;
  const double positive_target_;
  const double negative_target_;
};

}  // namespace

void ToPredictions(std::span<const TaskConfig> tasks, double kept_negatives,
                   std::span<const Calibration> calibrations, std::span<float> outputs) {
  SIMURGH_CHECK(kept_negatives > 0.0 && kept_negatives <= 1.0) << kept_negatives;
  SIMURGH_CHECK(calibrations.empty() || calibrations.size() == tasks.size());
  const double correction = std::log(kept_negatives);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t task = i % tasks.size();
    const LossConfig::Kind kind = tasks[task].loss.kind;
    double z = outputs[i] + correction;
    if (!calibrations.empty()) z = calibrations[task].scale * z + calibrations[task].shift;
    outputs[i] = static_cast<float>(PredictionOf(kind, z));
  }
}

StatusOr<FittedCalibration> FitCalibration(std::span<const LabelledOutput> own, Sum sum) {
  SIMURGH_ASSIGN_OR_RETURN(const Moments moments, MomentsOf(own, sum));
  FittedCalibration result;
  const PlattFit fit(own, moments, sum);
  if (std::min(moments.positives, moments.negatives) < kMinSamples) {
    result.problem =
        absl::StrCat("the data has ", moments.positives, " samples of label 1 and ",
                     moments.negatives, " of label 0; ", kMinSamples, " of each are needed");
    return result;
  }
  SIMURGH_ASSIGN_OR_RETURN(const LossAt raw, fit.At(fit.Standard(Calibration()), false));
  const Calibration prior{0, std::log((moments.positives + 1) / (moments.negatives + 1))};
  SIMURGH_ASSIGN_OR_RETURN(Calibration best, fit.Minimize(prior, /*is_fixed=*/false));
  if (best.scale < kMinDeviation) {
    SIMURGH_ASSIGN_OR_RETURN(best, fit.Minimize({kMinDeviation, best.shift}, /*is_fixed=*/true));
  }
  SIMURGH_ASSIGN_OR_RETURN(const LossAt fitted, fit.At(best, false));
  result.log_loss = std::min(fitted.loss, raw.loss);
  if (fitted.loss < raw.loss) result.calibration = fit.Scaled(best);
  return result;
}

}  // namespace simurgh
