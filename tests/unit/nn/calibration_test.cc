// Calibrations against a minimum that another program has found, and data that no fit suits.

#include "nn/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh::testing {
namespace {

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

FittedCalibration FitAlone(const std::vector<LabelledOutput>& samples) {
  const auto fitted = FitCalibration(samples, [](std::span<double>) { return absl::OkStatus(); });
  REQUIRE(fitted.ok());
  return *fitted;
}

// a ln p - b ln(1 - p) + c, as in the paper.
double Bent(const Calibration& calibration, double z) {
  const double p = Sigmoid(z);
  return calibration.low * std::log(p) - calibration.high * std::log1p(-p) + calibration.shift;
}

double LogLossOf(const std::vector<LabelledOutput>& samples, const Calibration& calibration) {
  double loss = 0;
  double weight = 0;
  for (const LabelledOutput& sample : samples) {
    const double z = Bent(calibration, sample.output);
    loss += sample.weight * std::log1p(std::exp(sample.label == 1 ? -z : z));
    weight += sample.weight;
  }
  return loss / weight;
}

// Samples whose labels follow a calibration of their outputs.
std::vector<LabelledOutput> SamplesOf(const Calibration& truth, bool is_weighted) {
  std::vector<LabelledOutput> samples;
  for (int i = 0; i < 500; ++i) {
    const float z = static_cast<float>(i * 37 % 101 - 50) / 8.0F;
    const bool is_positive = i * 53 % 97 / 97.0 < Sigmoid(Bent(truth, z));
    samples.push_back(
        {z, is_positive ? 1.0F : 0.0F, is_weighted ? static_cast<float>(1 + i % 3) : 1.0F});
  }
  return samples;
}

// Outputs 1 / 0.4 as long as they should be.
constexpr Calibration kOverconfident{.low = 0.4, .high = 0.4, .shift = -0.7};

// The minima by scipy.optimize.minimize, Nelder-Mead, tolerance 1e-12, with Platt's targets and
// half the square of high - low over the effective samples. Slopes are at least 0.01 / deviation.
// A third number that gains less than ln(samples) / 2 is not used.
TEST_CASE("The fit is the minimum of the log loss of smoothed labels") {
  struct Expected {
    Calibration truth;
    bool is_weighted;
    Calibration fitted;
    double log_loss;
  };
  const Calibration bent{.low = 0.2, .high = 1.5, .shift = -0.4};
  const double least = 0.002741594880697838;
  for (const Expected& expected : std::vector<Expected>{
           {kOverconfident, false, {0.33026848, 0.33026848, -0.50757605}, 0.5409261595622208},
           {kOverconfident, true, {0.3280868, 0.3280868, -0.50805689}, 0.5422570746998829},
           {bent, false, {0.13120286, 1.54212159, -0.46336202}, 0.38435304544936333},
           {bent, true, {0.12820417, 1.54990849, -0.47881665}, 0.3819906788387707},
           {{1.5, 0.2, 0.4}, false, {0.97361993, 0.35690188, -0.16810582}, 0.3928926485444479},
           {{-0.3, 1.2, -0.5}, false, {least, 0.86501421, 0.57088431}, 0.41680458647490787},
           {{1.2, -0.3, 0.5}, false, {0.59643256, least, -0.53341253}, 0.47330143185466206}}) {
    CAPTURE(expected.fitted.low, expected.fitted.high, expected.is_weighted);
    const std::vector<LabelledOutput> samples = SamplesOf(expected.truth, expected.is_weighted);
    const FittedCalibration fitted = FitAlone(samples);
    CHECK(fitted.problem.empty());
    CHECK(fitted.calibration.low == Approx(expected.fitted.low).margin(1e-6));
    CHECK(fitted.calibration.high == Approx(expected.fitted.high).margin(1e-6));
    CHECK(fitted.calibration.shift == Approx(expected.fitted.shift).margin(1e-6));
    CHECK(fitted.log_loss == Approx(expected.log_loss).margin(1e-8));
    CHECK(fitted.log_loss == Approx(LogLossOf(samples, fitted.calibration)).epsilon(1e-12));
  }
}

TEST_CASE("A sample of weight 0 does not count") {
  std::vector<LabelledOutput> samples = SamplesOf(kOverconfident, true);
  const FittedCalibration without = FitAlone(samples);
  samples.push_back({1e30F, 0.0F, 0.0F});
  const FittedCalibration with = FitAlone(samples);
  CHECK(with.calibration.low == Approx(without.calibration.low).epsilon(1e-9));
  CHECK(with.calibration.high == Approx(without.calibration.high).epsilon(1e-9));
}

TEST_CASE("Outputs that tell nothing, or the contrary, keep their order") {
  for (const double sign : {-1.0, 0.0}) {
    CAPTURE(sign);
    Random random(3);
    std::vector<LabelledOutput> samples;
    size_t positives = 0;
    for (int i = 0; i < 4'000; ++i) {
      const double z = 30 * random.Normal();
      const bool is_positive = random.Uniform() < Sigmoid(sign * z - 1);
      positives += is_positive ? 1 : 0;
      samples.push_back({static_cast<float>(z), is_positive ? 1.0F : 0.0F});
    }
    const FittedCalibration fitted = FitAlone(samples);
    CHECK(fitted.problem.empty());
    CHECK(fitted.calibration.low > 0);
    CHECK(fitted.calibration.high > 0);
    const double share = static_cast<double>(positives) / 4'000;
    const double constant = -share * std::log(share) - (1 - share) * std::log(1 - share);
    CHECK(fitted.log_loss < constant + 0.01);
    CHECK(LogLossOf(samples, Calibration()) > 3);
  }
}

TEST_CASE("Few samples of a label keep the outputs, and the reason is told") {
  const std::vector<LabelledOutput> three{{2.0F, 0.0F}, {-1.0F, 1.0F}, {0.5F, 1.0F}};
  const FittedCalibration of_three = FitAlone(three);
  CHECK(of_three.calibration == Calibration());
  CHECK(of_three.problem ==
        "the data has 2 samples of label 1 and 1 of label 0; 10 of each are needed");
  const FittedCalibration of_one_label =
      FitAlone(std::vector<LabelledOutput>(500, {.output = 1.0F, .label = 1.0F}));
  CHECK(of_one_label.calibration == Calibration());
  CHECK(of_one_label.problem ==
        "the data has 500 samples of label 1 and 0 of label 0; 10 of each are needed");
  CHECK(FitAlone({}).calibration == Calibration());
}

TEST_CASE("A calibration is not worse than none on its samples") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<LabelledOutput> samples;
    for (int i = 0; i < 60; ++i) {
      const double z = 2 * random.Normal();
      samples.push_back({static_cast<float>(z), random.Uniform() < Sigmoid(z) ? 1.0F : 0.0F});
    }
    const FittedCalibration fitted = FitAlone(samples);
    const double loss = LogLossOf(samples, fitted.calibration);
    CHECK(loss <= LogLossOf(samples, Calibration()) + 1e-12);
  }
}

// ln(1 + exp(z))
double Softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

// Outputs of all scales, far from 0 on one side, or both, with labels of any share.
TEST_CASE("No step from the fit in any direction has a lower loss") {
  constexpr int kSamples = 300;
  int bent = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const double scale = std::pow(10, 6 * random.Uniform() - 3);
    const double shift = (seed % 4 == 0 ? 6 : 0.5) * scale * random.Normal();
    const Calibration truth{.low = std::pow(10, 2 * random.Uniform() - 1) / scale,
                            .high = std::pow(10, 2 * random.Uniform() - 1) / scale,
                            .shift = random.Normal() - shift / scale};
    std::vector<LabelledOutput> samples;
    std::array<double, 2> counts{};
    double mean = 0;
    double squares = 0;
    for (int i = 0; i < kSamples; ++i) {
      const auto z = static_cast<float>(shift + scale * random.Normal());
      const double odds = truth.high * Softplus(z) - truth.low * Softplus(-z) + truth.shift;
      samples.push_back({z, random.Uniform() < Sigmoid(odds) ? 1.0F : 0.0F});
      counts[samples.back().label == 1 ? 1 : 0] += 1;
      mean += z / kSamples;
    }
    for (const LabelledOutput& one : samples) {
      squares += (one.output - mean) * (one.output - mean) / kSamples;
    }
    const FittedCalibration fitted = FitAlone(samples);
    const Calibration& found = fitted.calibration;
    REQUIRE((found.low > 0 && found.high > 0 && std::isfinite(found.low + found.high)));
    REQUIRE(std::isfinite(found.shift));
    if (!fitted.problem.empty() || found == Calibration()) continue;
    const auto loss_of = [&](const Calibration& one) {
      double loss = (one.high - one.low) * (one.high - one.low) / 2 / kSamples;
      for (const LabelledOutput& sample : samples) {
        const double z = sample.output;
        const double odds = one.high * Softplus(z) - one.low * Softplus(-z) + one.shift;
        const bool is_positive = sample.label == 1;
        const double target = is_positive ? (counts[1] + 1) / (counts[1] + 2) : 1 / (counts[0] + 2);
        loss += (Softplus(odds) - target * odds) / kSamples;
      }
      return loss;
    };
    const bool is_bent = found.low != found.high;
    bent += is_bent ? 1 : 0;
    const double least = 0.01 / std::sqrt(squares);
    const double best = loss_of(found);
    for (int i = 0; i < 30; ++i) {
      const double size = std::pow(10, -4 * random.Uniform()) / std::sqrt(squares);
      Calibration other = found;
      other.low = std::max(least, other.low + size * random.Normal());
      other.high = is_bent ? std::max(least, other.high + size * random.Normal()) : other.low;
      // The shift that keeps the mean output, nearly.
      other.shift += (found.low - other.low) * mean * random.Uniform() + 0.01 * random.Normal();
      CHECK(loss_of(other) > best - 1e-9);
    }
  }
  CHECK(bent > 10);
}

TEST_CASE("Equal outputs, and outputs beyond a float's probabilities, have a finite fit") {
  std::vector<LabelledOutput> equal;
  std::vector<LabelledOutput> far;
  for (int i = 0; i < 400; ++i) {
    const float label = i % 4 == 0 ? 1.0F : 0.0F;
    equal.push_back({2.0F, label});
    far.push_back({i % 3 == 0 ? 3e4F : -3e4F, label});
  }
  const Calibration of_equal = FitAlone(equal).calibration;
  CHECK(Sigmoid(Bent(of_equal, 2)) == Approx(101.0 / 402).epsilon(0.01));
  const FittedCalibration of_far = FitAlone(far);
  CHECK(of_far.calibration.low > 0);
  CHECK(of_far.calibration.high > 0);
  CHECK(of_far.log_loss < 0.58);
}

TEST_CASE("Predictions follow loss, sampling and calibration") {
  std::vector<TaskConfig> tasks(4);
  tasks[1].loss.kind = LossConfig::Kind::kFocal;
  tasks[2].loss.kind = LossConfig::Kind::kSquaredError;
  tasks[3].loss.kind = LossConfig::Kind::kPoisson;
  std::vector<float> values{0.5F, -1.5F, -2.5F, 0.25F};
  ToPredictions(tasks, 1, {}, values);
  CHECK(values[0] == Approx(Sigmoid(0.5)));
  CHECK(values[1] == Approx(Sigmoid(-1.5)));
  CHECK(values[2] == -2.5F);
  CHECK(values[3] == Approx(std::exp(0.25)));

  // p / (p + (1 - p) / k), then the calibration of that probability's logit.
  std::vector<float> sampled{0.5F, 40.0F};
  const std::vector<Calibration> line{{.low = 0.5, .high = 0.5, .shift = -1}};
  ToPredictions(std::vector<TaskConfig>(1), 0.1, line, sampled);
  const double p = Sigmoid(0.5);
  const double corrected = p / (p + (1 - p) / 0.1);
  CHECK(sampled[0] == Approx(Sigmoid(0.5 * std::log(corrected / (1 - corrected)) - 1)));
  CHECK(sampled[1] == Approx(Sigmoid(0.5 * (40 + std::log(0.1)) - 1)));  // Of p 1 in a float.

  const Calibration bend{.low = 0.25, .high = 1.5, .shift = -1};
  std::vector<float> bent{-3.0F, -0.5F, 0.0F, 0.5F, 3.0F};
  const std::vector<float> outputs = bent;
  ToPredictions(std::vector<TaskConfig>(1), 1, {{bend}}, bent);
  for (size_t i = 0; i < bent.size(); ++i) {
    CHECK(bent[i] == Approx(Sigmoid(Bent(bend, outputs[i]))));
  }
  std::vector<float> extreme{-200.0F, 50.0F, -3e38F, 3e38F};
  ToPredictions(std::vector<TaskConfig>(1), 1, {{bend}}, extreme);
  CHECK(extreme[0] == Approx(Sigmoid(0.25 * -200 - 1)));
  CHECK(extreme[1] == 1);
  CHECK(extreme[2] == 0);
  CHECK(extreme[3] == 1);
}

// With N positives and kM of M negatives in training, the best constant is N / (N + kM).
TEST_CASE("The correction undoes the sampling of negatives") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const double positives = 1.0 + static_cast<double>(random.Below(1'000));
    const double negatives = 1.0 + static_cast<double>(random.Below(100'000));
    const double kept = 0.01 + 0.99 * random.Uniform();
    std::vector<float> value = {static_cast<float>(std::log(positives / (kept * negatives)))};
    ToPredictions(std::vector<TaskConfig>(1), kept, {}, value);
    REQUIRE(value[0] == Approx(positives / (positives + negatives)).epsilon(1e-4));
  }
}

TEST_CASE("The text of calibrations restores every bit, and a damaged one is refused") {
  const std::vector<Calibration> calibrations{
      {0.1 + 0.2, 0.1 + 0.2, -1.0 / 3}, {1, 1, 0}, {1e-300, 1, 1e300}, {2, 1.0 / 3, -1}};
  const auto read = CalibrationsFromText(CalibrationsText(calibrations));
  REQUIRE(read.ok());
  CHECK(*read == calibrations);
  // Models of older versions have equal slopes.
  CHECK(CalibrationsText({{0.8, 0.8, -0.1}, {1, 1, 0}, {2, 3, 4}}) == "0.8 -0.1, 1 0, 2 3 4");
  for (const char* text : {"", "1", "0 1", "-1 0", "1 0,1 0", "1 0, ", "1  0", "nan 0", "1 inf",
                           "1 0 0", "0 1 0", "-1 1 0", "1 1 1 1", "a b", "1 a 0"}) {
    CAPTURE(text);
    CHECK(absl::IsInvalidArgument(CalibrationsFromText(text).status()));
  }
}

}  // namespace
}  // namespace simurgh::testing
