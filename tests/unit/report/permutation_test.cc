#include "report/permutation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

constexpr LossConfig::Kind kBinary = LossConfig::Kind::kBce;
constexpr LossConfig::Kind kNumbers = LossConfig::Kind::kSquaredError;

float Sigmoid(double logit) { return static_cast<float>(1 / (1 + std::exp(-logit))); }

std::vector<uint32_t> Permutation(size_t rows, Random& random) {
  std::vector<uint32_t> all(rows);
  std::iota(all.begin(), all.end(), 0U);
  for (size_t i = rows; i > 1; --i) std::swap(all[i - 1], all[random.Below(i)]);
  return all;
}

// Rows with a column that decides the label, and one of noise, both of which a model reads.
struct Rows {
  std::vector<double> signal;
  std::vector<double> noise;
  std::vector<float> labels;
  std::vector<float> weights;

  Rows(size_t count, Random& random) {
    for (size_t row = 0; row < count; ++row) {
      signal.push_back(random.Normal());
      noise.push_back(random.Normal());
      labels.push_back(random.Uniform() < Sigmoid(1.5 * signal.back()) ? 1.0F : 0.0F);
      weights.push_back(1);
    }
  }
  // The model, which has learned some of the noise.
  static float Predict(double of_signal, double of_noise) {
    return Sigmoid(1.3 * of_signal + 0.6 * of_noise);
  }
  std::vector<float> Predictions() const {
    std::vector<float> all;
    for (size_t row = 0; row < signal.size(); ++row) {
      all.push_back(Predict(signal[row], noise[row]));
    }
    return all;
  }
  PermutationEffects Measure(bool of_noise, size_t repeats, Random& random,
                             LossConfig::Kind kind = kBinary) const {
    std::vector<std::vector<uint32_t>> permutations;
    std::vector<std::vector<float>> permuted;
    for (size_t r = 0; r < repeats; ++r) {
      permutations.push_back(Permutation(signal.size(), random));
      std::vector<float>& now = permuted.emplace_back();
      for (size_t row = 0; row < signal.size(); ++row) {
        const uint32_t donor = permutations.back()[row];
        now.push_back(of_noise ? Predict(signal[row], noise[donor])
                               : Predict(signal[donor], noise[row]));
      }
    }
    const std::vector<float> predictions = Predictions();
    return PermutationTest(kind, labels, predictions, weights).Measure(permutations, permuted);
  }
};

TEST_CASE("An effect is the mean change of the metric, as computed by hand") {
  Random random(1);
  Rows rows(200, random);
  for (float& weight : rows.weights) weight = static_cast<float>(0.5 + random.Uniform());
  const std::vector<float> predictions = rows.Predictions();
  const std::vector<std::vector<uint32_t>> permutations = {Permutation(200, random),
                                                           Permutation(200, random)};
  std::vector<std::vector<float>> permuted(2);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t row = 0; row < 200; ++row) {
      permuted[r].push_back(Rows::Predict(rows.signal[permutations[r][row]], rows.noise[row]));
    }
  }
  const auto loss = [&](const std::vector<float>& p) {
    double sum = 0;
    double weight = 0;
    for (size_t row = 0; row < 200; ++row) {
      sum -= rows.weights[row] * std::log(rows.labels[row] == 1 ? p[row] : 1 - double{p[row]});
      weight += rows.weights[row];
    }
    return sum / weight;
  };
  const auto auc = [&](const std::vector<float>& p) {
    double wins = 0;
    double pairs = 0;
    for (size_t i = 0; i < 200; ++i) {
      for (size_t j = 0; j < 200; ++j) {
        if (rows.labels[i] != 1 || rows.labels[j] != 0) continue;
        const double pair = double{rows.weights[i]} * rows.weights[j];
        pairs += pair;
        wins += pair * (p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0);
      }
    }
    return wins / pairs;
  };
  const PermutationEffects found = PermutationTest(kBinary, rows.labels, predictions, rows.weights)
                                       .Measure(permutations, permuted);
  CHECK(found.loss.mean ==
        Approx((loss(permuted[0]) + loss(permuted[1])) / 2 - loss(predictions)).epsilon(1e-6));
  CHECK(found.auc.mean ==
        Approx(auc(predictions) - (auc(permuted[0]) + auc(permuted[1])) / 2).epsilon(1e-6));
}

// Checks that the standard error is the deviation of the effect over new samples of rows.
void CheckErrors(bool of_noise, const std::function<PermutationEffect(PermutationEffects)>& of) {
  constexpr int kTrials = 200;
  double sum = 0;
  double squares = 0;
  double errors = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(static_cast<uint64_t>(trial) + 1'000);
    const Rows rows(300, random);
    const PermutationEffect effect = of(rows.Measure(of_noise, /*repeats=*/5, random));
    sum += effect.mean / kTrials;
    squares += effect.mean * effect.mean / kTrials;
    errors += effect.standard_error / kTrials;
  }
  const double deviation = std::sqrt(squares - sum * sum);
  // The deviation of 200 trials has itself an error of 5 %. The standard error may be too large.
  CHECK(errors > 0.85 * deviation);
  CHECK(errors < 1.5 * deviation);
}

TEST_CASE("Standard errors hold the choice of the rows") {
  const bool of_noise = GENERATE(false, true);
  CAPTURE(of_noise);
  CheckErrors(of_noise, [](const PermutationEffects& effects) { return effects.loss; });
  CheckErrors(of_noise, [](const PermutationEffects& effects) { return effects.auc; });
}

TEST_CASE("Intervals of noise hold 0, and those of a strong column do not") {
  constexpr int kTrials = 300;
  int of_loss = 0;
  int of_auc = 0;
  int of_repeats = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(static_cast<uint64_t>(trial) + 5'000);
    const Rows rows(250, random);
    const PermutationEffects noise = rows.Measure(/*of_noise=*/true, /*repeats=*/5, random);
    of_loss += noise.loss.interval.Holds(0) ? 1 : 0;
    of_auc += noise.auc.interval.Holds(0) ? 1 : 0;
    const PermutationEffects signal = rows.Measure(/*of_noise=*/false, /*repeats=*/5, random);
    of_repeats += signal.loss.interval.low > 0 && signal.auc.interval.low > 0 ? 1 : 0;
    CHECK(signal.loss.mean > noise.loss.mean);
  }
  // 95 % of 300 is 285, with a deviation of 3.8. The intervals are wide rather than narrow.
  CHECK(of_loss >= 274);
  CHECK(of_auc >= 274);
  CHECK(of_repeats == kTrials);
}

TEST_CASE("A column that nothing reads has an effect of exactly 0") {
  Random random(3);
  const Rows rows(100, random);
  const std::vector<float> predictions = rows.Predictions();
  const std::vector<std::vector<uint32_t>> permutations = {Permutation(100, random)};
  const std::vector<std::vector<float>> permuted = {predictions};
  const PermutationEffects found = PermutationTest(kBinary, rows.labels, predictions, rows.weights)
                                       .Measure(permutations, permuted);
  CHECK(found.loss.mean == 0);
  CHECK(found.loss.standard_error == 0);
  CHECK(found.auc.interval.Holds(0));
}

TEST_CASE("Rows without a label or weight only give cells") {
  Random random(4);
  Rows rows(100, random);
  for (size_t row = 0; row < 50; ++row) {
    if (row % 2 == 0) {
      rows.labels[row] = NAN;
    } else {
      rows.weights[row] = 0;
    }
  }
  const PermutationEffects found = rows.Measure(/*of_noise=*/false, /*repeats=*/3, random);
  CHECK(std::isfinite(found.loss.mean));
  CHECK(found.loss.standard_error > 0);
  CHECK(found.loss.mean > 0);
}

TEST_CASE("One class has no effect on the AUC, and numbers have one on the RMSE") {
  Random random(5);
  Rows rows(100, random);
  std::ranges::fill(rows.labels, 1.0F);
  const PermutationEffects one = rows.Measure(/*of_noise=*/false, /*repeats=*/2, random);
  CHECK(std::isnan(one.auc.mean));
  CHECK(std::isfinite(one.loss.mean));

  Rows numbers(2'000, random);
  for (size_t row = 0; row < 2'000; ++row) {
    numbers.labels[row] = Rows::Predict(numbers.signal[row], numbers.noise[row]) +
                          static_cast<float>(0.1 * random.Normal());
  }
  const PermutationEffects found = numbers.Measure(false, /*repeats=*/5, random, kNumbers);
  CHECK(std::isnan(found.auc.mean));
  CHECK(found.loss.interval.low > 0.1);
}

}  // namespace
}  // namespace simurgh
