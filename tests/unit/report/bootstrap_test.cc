#include "report/bootstrap.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"

namespace simurgh {
namespace {

constexpr LossConfig::Kind kBinary = LossConfig::Kind::kBce;
constexpr LossConfig::Kind kNumbers = LossConfig::Kind::kSquaredError;

// Rows whose labels follow their predictions.
LabelledRows RowsOf(size_t count, uint64_t seed, bool are_weighted = false) {
  Random random(seed);
  LabelledRows rows;
  for (size_t row = 0; row < count; ++row) {
    const double p = 1 / (1 + std::exp(-random.Normal()));
    rows.predictions.push_back(static_cast<float>(p));
    rows.labels.push_back(random.Uniform() < p ? 1.0F : 0.0F);
    rows.weights.push_back(are_weighted ? static_cast<float>(0.5 + random.Uniform()) : 1.0F);
    rows.units.push_back(row + 1);
    rows.places.push_back(static_cast<uint32_t>(row));
  }
  return rows;
}

TEST_CASE("Metrics of rows are those of their definitions") {
  const LabelledRows rows = RowsOf(300, /*seed=*/3, /*are_weighted=*/true);
  double loss = 0;
  double weight = 0;
  double wins = 0;
  double pairs = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double p = rows.predictions[i];
    loss -= rows.weights[i] * std::log(rows.labels[i] == 1 ? p : 1 - p);
    weight += rows.weights[i];
    for (size_t j = 0; j < rows.size(); ++j) {
      if (rows.labels[i] != 1 || rows.labels[j] != 0) continue;
      const double pair = double{rows.weights[i]} * rows.weights[j];
      pairs += pair;
      if (rows.predictions[i] > rows.predictions[j]) wins += pair;
    }
  }
  const Metrics metrics = MetricsOf(rows, kBinary);
  CHECK(metrics.log_loss == Approx(loss / weight).epsilon(1e-6));
  CHECK(metrics.auc == Approx(wins / pairs).epsilon(1e-9));
  CHECK(std::isnan(metrics.rmse));
}

TEST_CASE("Intervals hold the true values in about 95 % of the samples") {
  // The truth, from a large sample.
  const Metrics truth = MetricsOf(RowsOf(400'000, /*seed=*/99), kBinary);
  constexpr int kTrials = 150;
  int of_auc = 0;
  int of_loss = 0;
  int of_calibration = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const MetricIntervals found =
        Bootstrap(RowsOf(400, 1'000 + static_cast<uint64_t>(trial)), kBinary).Intervals();
    of_auc += found.auc.Holds(truth.auc) ? 1 : 0;
    of_loss += found.log_loss.Holds(truth.log_loss) ? 1 : 0;
    of_calibration += found.calibration.Holds(1) ? 1 : 0;
  }
  // 95 % of 150 is 142.5, with a deviation of 2.7.
  for (const int count : {of_auc, of_loss, of_calibration}) {
    CHECK(count >= 131);
    CHECK(count <= 150);
  }
}

TEST_CASE("The width of an interval is that of the normal approximation") {
  const LabelledRows rows = RowsOf(4'000, /*seed=*/5);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double loss =
        -std::log(rows.labels[i] == 1 ? rows.predictions[i] : 1 - rows.predictions[i]);
    sum += loss;
    squares += loss * loss;
  }
  const auto count = static_cast<double>(rows.size());
  const double error = std::sqrt((squares / count - sum / count * (sum / count)) / count);
  const Interval interval = Bootstrap(rows, kBinary).Intervals().log_loss;
  CHECK(interval.high - interval.low == Approx(2 * 1.96 * error).epsilon(0.12));
}

TEST_CASE("Groups of equal rows widen intervals") {
  LabelledRows once = RowsOf(500, /*seed=*/7);
  LabelledRows repeated;
  for (size_t i = 0; i < 9 * once.size(); ++i) {
    const size_t row = i % once.size();
    repeated.labels.push_back(once.labels[row]);
    repeated.predictions.push_back(once.predictions[row]);
    repeated.weights.push_back(1);
    repeated.units.push_back(once.units[row]);
    repeated.places.push_back(static_cast<uint32_t>(i));
  }
  const auto width = [](const LabelledRows& rows) {
    const Interval interval = Bootstrap(rows, kBinary).Intervals().auc;
    return interval.high - interval.low;
  };
  // Nine equal rows of a unit tell no more than one.
  CHECK(width(repeated) == Approx(width(once)).epsilon(1e-3));
  for (size_t i = 0; i < repeated.size(); ++i) repeated.units[i] = Mix64(i + 1);
  CHECK(width(repeated) == Approx(width(once) / 3).epsilon(0.15));
}

TEST_CASE("Differences of models are paired") {
  const LabelledRows rows = RowsOf(3'000, /*seed=*/11);
  LabelledRows noisy = rows;
  Random random(5);
  for (float& p : noisy.predictions) {
    const double logit = std::log(p) - std::log1p(-p) + 0.3 * random.Normal();
    p = static_cast<float>(1 / (1 + std::exp(-logit)));
  }
  const Bootstrap best(rows, kBinary);
  const MetricIntervals same = best.Differences(best);
  CHECK(same.auc.low == 0);
  CHECK(same.auc.high == 0);
  const Bootstrap worse(noisy, kBinary);
  const MetricIntervals found = best.Differences(worse);
  CHECK(found.auc.low > 0);
  CHECK(found.log_loss.high < 0);
  // Pairs make it much narrower than the intervals themselves.
  const Interval alone = best.Intervals().auc;
  CHECK(found.auc.high - found.auc.low < 0.6 * (alone.high - alone.low));
}

TEST_CASE("Few rows and one class have no interval of the AUC") {
  LabelledRows rows = RowsOf(50, /*seed=*/13);
  std::ranges::fill(rows.labels, 1.0F);
  const Bootstrap bootstrap(rows, kBinary);
  CHECK_FALSE(bootstrap.Intervals().auc.is_known());
  CHECK(bootstrap.Intervals().log_loss.is_known());
  CHECK(std::isnan(MetricsOf(rows, kBinary).auc));
  CHECK_FALSE(Bootstrap(RowsOf(29, /*seed=*/17), kBinary).Intervals().log_loss.is_known());
  CHECK(Bootstrap(RowsOf(30, /*seed=*/17), kBinary).Intervals().log_loss.is_known());
  LabelledRows grouped = RowsOf(300, /*seed=*/17);
  for (size_t row = 0; row < grouped.size(); ++row) grouped.units[row] = row % 29;
  CHECK_FALSE(Bootstrap(grouped, kBinary).Intervals().log_loss.is_known());
}

TEST_CASE("Labels of numbers have an RMSE and its interval") {
  Random random(19);
  LabelledRows rows;
  for (size_t row = 0; row < 2'000; ++row) {
    const double mean = 10 + random.Normal();
    rows.predictions.push_back(static_cast<float>(mean));
    rows.labels.push_back(static_cast<float>(mean + 0.5 * random.Normal()));
    rows.weights.push_back(1);
    rows.units.push_back(row + 1);
    rows.places.push_back(static_cast<uint32_t>(row));
  }
  const Metrics metrics = MetricsOf(rows, kNumbers);
  CHECK(metrics.rmse == Approx(0.5).epsilon(0.05));
  CHECK(metrics.constant_rmse == Approx(std::sqrt(1.25)).epsilon(0.05));
  CHECK(std::isnan(metrics.auc));
  const MetricIntervals found = Bootstrap(rows, kNumbers).Intervals();
  CHECK(found.rmse.Holds(metrics.rmse));
  // The deviation of an RMSE of normal errors is rmse / sqrt(2 n).
  CHECK(found.rmse.high - found.rmse.low ==
        Approx(2 * 1.96 * 0.5 / std::sqrt(4'000.0)).epsilon(0.15));
  CHECK(found.gain.low > 0.5);
  CHECK_FALSE(found.auc.is_known());
}

}  // namespace
}  // namespace simurgh
