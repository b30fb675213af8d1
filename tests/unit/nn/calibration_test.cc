// Calibrations against a minimum that another program has found, and data that no fit suits.

#include "simurgh/nn/calibration.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh::testing {
namespace {

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

FittedCalibration FitAlone(const std::vector<LabelledOutput>& samples) {
  const auto fitted = FitCalibration(samples, [](std::span<double>) { return absl::OkStatus(); });
  REQUIRE(fitted.ok());
  return *fitted;
}

double LogLossOf(const std::vector<LabelledOutput>& samples, const Calibration& calibration) {
  double loss = 0;
  double weight = 0;
  for (const LabelledOutput& sample : samples) {
    const double z = calibration.scale * sample.output + calibration.shift;
    loss += sample.weight * std::log1p(std::exp(sample.label == 1 ? -z : z));
    weight += sample.weight;
  }
  return loss / weight;
}

// Outputs 1 / 0.4 as long as they should be.
std::vector<LabelledOutput> Overconfident(bool is_weighted) {
  std::vector<LabelledOutput> samples;
  for (int i = 0; i < 500; ++i) {
    const float z = static_cast<float>(i * 37 % 101 - 50) / 8.0F;
    const bool is_positive = i * 53 % 97 / 97.0 < Sigmoid(0.4 * z - 0.7);
    samples.push_back(
        {z, is_positive ? 1.0F : 0.0F, is_weighted ? static_cast<float>(1 + i % 3) : 1.0F});
  }
  return samples;
}

// The minima by scipy.optimize.minimize, Nelder-Mead, tolerance 1e-12, with Platt's targets: 204 /
// 205 for the 203 positives, 1 / 299 for the 297 negatives.
TEST_CASE("The fit is the minimum of the log loss of smoothed labels") {
  struct Expected {
    bool is_weighted;
    double scale, shift, log_loss;
  };
  for (const Expected& expected : {Expected{false, 0.33026848, -0.50757608, 0.5409261595989472},
                                   Expected{true, 0.3280868, -0.50805691, 0.5422570747087585}}) {
    CAPTURE(expected.is_weighted);
    const std::vector<LabelledOutput> samples = Overconfident(expected.is_weighted);
    const FittedCalibration fitted = FitAlone(samples);
    CHECK(fitted.problem.empty());
    CHECK(fitted.calibration.scale == Approx(expected.scale).margin(1e-6));
    CHECK(fitted.calibration.shift == Approx(expected.shift).margin(1e-6));
    CHECK(fitted.log_loss == Approx(expected.log_loss).margin(1e-9));
    CHECK(fitted.log_loss == Approx(LogLossOf(samples, fitted.calibration)).epsilon(1e-12));
  }
}

TEST_CASE("A sample of weight 0 does not count") {
  std::vector<LabelledOutput> samples = Overconfident(true);
  const FittedCalibration without = FitAlone(samples);
  samples.push_back({1e30F, 0.0F, 0.0F});
  const FittedCalibration with = FitAlone(samples);
  CHECK(with.calibration.scale == Approx(without.calibration.scale).epsilon(1e-9));
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
    CHECK(fitted.calibration.scale > 0);
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

TEST_CASE("Equal outputs, and outputs beyond a float's probabilities, have a finite fit") {
  std::vector<LabelledOutput> equal;
  std::vector<LabelledOutput> far;
  for (int i = 0; i < 400; ++i) {
    const float label = i % 4 == 0 ? 1.0F : 0.0F;
    equal.push_back({2.0F, label});
    far.push_back({i % 3 == 0 ? 3e4F : -3e4F, label});
  }
  const Calibration of_equal = FitAlone(equal).calibration;
  CHECK(Sigmoid(2 * of_equal.scale + of_equal.shift) == Approx(101.0 / 402).epsilon(0.01));
  const FittedCalibration of_far = FitAlone(far);
  CHECK(of_far.calibration.scale > 0);
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
  ToPredictions(std::vector<TaskConfig>(1), 0.1, {{{.scale = 0.5, .shift = -1}}}, sampled);
  const double p = Sigmoid(0.5);
  const double corrected = p / (p + (1 - p) / 0.1);
  CHECK(sampled[0] == Approx(Sigmoid(0.5 * std::log(corrected / (1 - corrected)) - 1)));
  CHECK(sampled[1] == Approx(Sigmoid(0.5 * (40 + std::log(0.1)) - 1)));  // Of p 1 in a float.
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
  const std::vector<Calibration> calibrations{{0.1 + 0.2, -1.0 / 3}, {1, 0}, {1e-300, 1e300}};
  const auto read = CalibrationsFromText(CalibrationsText(calibrations));
  REQUIRE(read.ok());
  CHECK(*read == calibrations);
  CHECK(CalibrationsText({{0.8, -0.1}, {1, 0}}) == "0.8 -0.1, 1 0");
  for (const char* text :
       {"", "1", "0 1", "-1 0", "1 0,1 0", "1 0, ", "1  0", "nan 0", "1 inf", "1 0 0", "a b"}) {
    CAPTURE(text);
    CHECK(absl::IsInvalidArgument(CalibrationsFromText(text).status()));
  }
}

}  // namespace
}  // namespace simurgh::testing
