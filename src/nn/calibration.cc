#include "nn/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/formulas.h"

namespace simurgh {
namespace {

// Samples of each label value that a fit needs.
constexpr double kMinSamples = 10;
// Smallest slope of calibrated outputs in deviations. A model without knowledge gets this slope.
constexpr double kMinSlope = 0.01;
// Largest output that counts: beyond it, no float has a probability.
constexpr double kMaxOutput = 1e6;

using Sum = absl::FunctionRef<Status(std::span<double>)>;

double OutputOf(const LabelledOutput& sample) {
  return std::clamp(double{sample.output}, -kMaxOutput, kMaxOutput);
}

// ln(1 + exp(z))
double Softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

double Calibrated(const Calibration& calibration, double z) {
  const auto& [low, high, shift] = calibration;
  // Softplus of z and -z would lose bits of equal slopes.
  return (z > 0 ? high : low) * z + (high - low) * std::log1p(std::exp(-std::abs(z))) + shift;
}

// Counts and moments of the samples with a weight.
struct Moments {
  double positives = 0;  // Number of samples.
  double negatives = 0;
  double weight = 0;
  // Number of equally weighted samples with the same information. Source: Kish, 1965.
  double effective = 0;
  double low = 0;        // Mean of -Softplus(-z), weighted like the others.
  double high = 0;       // Mean of Softplus(z).
  double deviation = 0;  // Deviation of the outputs.
};

StatusOr<Moments> MomentsOf(std::span<const LabelledOutput> own, std::span<const double> high,
                            Sum sum) {
  std::array<double, 6> sums{};
  for (size_t i = 0; i < own.size(); ++i) {
    const LabelledOutput& sample = own[i];
    if (sample.weight == 0) continue;
    const double w = sample.weight;
    sums[sample.label > 0.5F ? 0 : 1] += 1;
    sums[2] += w;
    sums[3] += w * w;
    sums[4] += w * (OutputOf(sample) - high[i]);
    sums[5] += w * high[i];
  }
  SIMURGH_RETURN_IF_ERROR(sum(sums));
  Moments moments{.positives = sums[0],
                  .negatives = sums[1],
                  .weight = sums[2],
                  .effective = sums[2] * sums[2] / sums[3],
                  .low = sums[4] / sums[2],
                  .high = sums[5] / sums[2]};
  double squares = 0;
  for (const LabelledOutput& sample : own) {
    const double distance = OutputOf(sample) - (moments.low + moments.high);
    squares += sample.weight * distance * distance;
  }
  SIMURGH_RETURN_IF_ERROR(sum({&squares, 1}));
  moments.deviation = std::sqrt(squares / moments.weight);
  return moments;
}

// Values for low, high and shift.
using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

double Dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// The log loss of a calibration, and its derivatives.
struct LossAt {
  double loss = 0;
  Vector slope{};
  Matrix curvature{};
};

// Directions of a fit: equal slopes, each slope without the other, and only the shift.
constexpr Vector kBoth{1, 1, 0};
constexpr Vector kLow{1, 0, 0};
constexpr Vector kHigh{0, 1, 0};
constexpr Vector kShift{0, 0, 1};

// Minimizes the log loss over the terms of low and high, with mean 0, in deviations of the outputs.
class BetaFit {
 public:
  BetaFit(std::span<const LabelledOutput> own, std::span<const double> high, const Moments& moments,
          Sum sum)
      : own_(own),
        high_(high),
        moments_(moments),
        sum_(sum),
        positive_target_((moments.positives + 1) / (moments.positives + 2)),
        negative_target_(1 / (moments.negatives + 2)) {}

  // Returns the log loss of the labels.
  StatusOr<double> LossOf(const Vector& fitted) const {
    SIMURGH_ASSIGN_OR_RETURN(const LossAt at, At(fitted, /*smooths=*/false));
    return at.loss;
  }

  // Returns the minimum with equal slopes of at least kMinSlope.
  StatusOr<Vector> Platt() const {
    const double prior = std::log((moments_.positives + 1) / (moments_.negatives + 1));
    SIMURGH_ASSIGN_OR_RETURN(Vector best, Minimize({0, 0, prior}, {kBoth, kShift}));
    if (best[0] >= kMinSlope) return best;
    return Minimize({kMinSlope, kMinSlope, best[2]}, {kShift});
  }

  // Returns the minimum with slopes of at least kMinSlope.
  StatusOr<Vector> Beta(const Vector& start) const {
    SIMURGH_ASSIGN_OR_RETURN(Vector best, Minimize(start, {kLow, kHigh, kShift}));
    if (best[0] < kMinSlope) {
      SIMURGH_ASSIGN_OR_RETURN(best, Minimize({kMinSlope, start[1], start[2]}, {kHigh, kShift}));
    }
    if (best[1] < kMinSlope) {
      SIMURGH_ASSIGN_OR_RETURN(best, Minimize({start[0], kMinSlope, start[2]}, {kLow, kShift}));
    }
    if (best[0] >= kMinSlope) return best;
    return Minimize({kMinSlope, kMinSlope, start[2]}, {kShift});
  }

  // Converts a fit in deviations to a calibration of outputs as they are. Standard() is the
  // inverse.
  Calibration Scaled(const Vector& fitted) const {
    const double low = fitted[0] / deviation();
    const double high = fitted[1] / deviation();
    return {low, high, fitted[2] - low * moments_.low - high * moments_.high};
  }
  Vector Standard(const Calibration& scaled) const {
    const auto& [low, high, shift] = scaled;
    return {low * deviation(), high * deviation(),
            shift + low * moments_.low + high * moments_.high};
  }

 private:
  // Returns means over the samples. smooths: with Platt's targets in place of the labels, and the
  // prior.
  StatusOr<LossAt> At(const Vector& fitted, bool smooths) const {
    std::array<double, 10> sums{};
    for (size_t i = 0; i < own_.size(); ++i) {
      const LabelledOutput& sample = own_[i];
      const double low = OutputOf(sample) - high_[i];
      const Vector terms{(low - moments_.low) / deviation(),
                         (high_[i] - moments_.high) / deviation(), 1};
      const double z = Dot(fitted, terms);
      const bool is_positive = sample.label > 0.5F;
      const double smooth = is_positive ? positive_target_ : negative_target_;
      const double target = smooths ? smooth : is_positive ? 1.0 : 0.0;
      const double decay = std::exp(-std::abs(z));
      const double p = Probability(z, decay);
      const auto [loss, slope] = CrossEntropy(z, target, p, decay);
      const double w = sample.weight / moments_.weight;
      const double curvature = w * p * (1 - p);
      sums[0] += w * loss;
      for (size_t a = 0, next = 4; a < 3; ++a) {
        sums[1 + a] += w * slope * terms[a];
        for (size_t b = 0; b <= a; ++b) sums[next++] += curvature * terms[a] * terms[b];
      }
    }
    SIMURGH_RETURN_IF_ERROR(sum_(sums));
    LossAt at{.loss = sums[0], .slope = {sums[1], sums[2], sums[3]}};
    for (size_t a = 0, next = 4; a < 3; ++a) {
      for (size_t b = 0; b <= a; ++b) at.curvature[a][b] = at.curvature[b][a] = sums[next++];
    }
    if (smooths) AddPrior(fitted, at);
    return at;
  }

  // Adds the prior: high - low has a normal distribution of mean 0 and deviation 1. Outputs that
  // are all far below 0 have no information about `high`; those far above 0 have none about `low`.
  void AddPrior(const Vector& fitted, LossAt& at) const {
    const double precision = 1 / (moments_.effective * deviation() * deviation());
    const double difference = fitted[1] - fitted[0];
    at.loss += precision * difference * difference / 2;
    at.slope[0] -= precision * difference;
    at.slope[1] += precision * difference;
    at.curvature[0][0] += precision;
    at.curvature[1][1] += precision;
    at.curvature[0][1] -= precision;
    at.curvature[1][0] -= precision;
  }

  // Minimizes along `directions` only.
  StatusOr<Vector> Minimize(Vector start, const std::vector<Vector>& directions) const {
    constexpr int kMaxSteps = 100;
    constexpr double kFlat = 1e-10;
    constexpr double kSmallestPart = 1e-10;
    SIMURGH_ASSIGN_OR_RETURN(LossAt at, At(start, /*smooths=*/true));
    for (int i = 0; i < kMaxSteps; ++i) {
      double squares = 0;
      for (const Vector& one : directions) squares += Dot(at.slope, one) * Dot(at.slope, one);
      if (std::sqrt(squares) < kFlat) break;
      const Vector step = StepOf(at, directions);
      const double descent = Dot(at.slope, step);
      double part = 1;
      for (; part > kSmallestPart; part /= 2) {
        Vector next = start;
        for (size_t a = 0; a < 3; ++a) next[a] += part * step[a];
        SIMURGH_ASSIGN_OR_RETURN(const LossAt there, At(next, /*smooths=*/true));
        if (there.loss > at.loss + 1e-4 * part * descent) continue;
        start = next;
        at = there;
        break;
      }
      if (part <= kSmallestPart) break;  // Rounding hides the rest.
    }
    return start;
  }

  // Returns the Newton step.
  static Vector StepOf(const LossAt& at, const std::vector<Vector>& directions) {
    constexpr double kRidge = 1e-12;
    const size_t count = directions.size();
    // Solves the system of the directions by elimination. It is positive definite.
    Matrix system{};
    Vector right{};
    for (size_t i = 0; i < count; ++i) {
      right[i] = -Dot(at.slope, directions[i]);
      Vector row{};
      for (size_t a = 0; a < 3; ++a) row[a] = Dot(at.curvature[a], directions[i]);
      for (size_t j = 0; j < count; ++j) system[i][j] = Dot(row, directions[j]);
      system[i][i] += kRidge;
    }
    for (size_t i = 0; i < count; ++i) {
      for (size_t below = i + 1; below < count; ++below) {
        const double factor = system[below][i] / system[i][i];
        for (size_t j = i; j < count; ++j) system[below][j] -= factor * system[i][j];
        right[below] -= factor * right[i];
      }
    }
    Vector step{};
    for (size_t i = count; i-- > 0;) {
      for (size_t j = i + 1; j < count; ++j) right[i] -= system[i][j] * right[j];
      right[i] /= system[i][i];
      for (size_t a = 0; a < 3; ++a) step[a] += right[i] * directions[i][a];
    }
    return step;
  }

  double deviation() const { return moments_.deviation > 0 ? moments_.deviation : 1; }

  const std::span<const LabelledOutput> own_;
  const std::span<const double> high_;
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
    if (!calibrations.empty()) z = Calibrated(calibrations[task], z);
    outputs[i] = static_cast<float>(PredictionOf(kind, z));
  }
}

StatusOr<FittedCalibration> FitCalibration(std::span<const LabelledOutput> own, Sum sum) {
  std::vector<double> high;
  high.reserve(own.size());
  for (const LabelledOutput& sample : own) high.push_back(Softplus(OutputOf(sample)));
  SIMURGH_ASSIGN_OR_RETURN(const Moments moments, MomentsOf(own, high, sum));
  FittedCalibration result;
  if (std::min(moments.positives, moments.negatives) < kMinSamples) {
    result.problem =
        absl::StrCat("the data has ", moments.positives, " samples of label 1 and ",
                     moments.negatives, " of label 0; ", kMinSamples, " of each are needed");
    return result;
  }
  const BetaFit fit(own, high, moments, sum);
  SIMURGH_ASSIGN_OR_RETURN(result.log_loss, fit.LossOf(fit.Standard(Calibration())));
  SIMURGH_ASSIGN_OR_RETURN(const Vector platt, fit.Platt());
  SIMURGH_ASSIGN_OR_RETURN(const Vector beta, fit.Beta(platt));
  SIMURGH_ASSIGN_OR_RETURN(const double platt_loss, fit.LossOf(platt));
  SIMURGH_ASSIGN_OR_RETURN(const double beta_loss, fit.LossOf(beta));
  // Schwarz's criterion: the third number must bring more than its chance.
  const double gain = 2 * moments.effective * (platt_loss - beta_loss);
  const bool is_beta = gain > std::log(moments.effective);
  const double loss = is_beta ? beta_loss : platt_loss;
  if (loss < result.log_loss) {
    result.log_loss = loss;
    result.calibration = fit.Scaled(is_beta ? beta : platt);
  }
  return result;
}

}  // namespace simurgh
