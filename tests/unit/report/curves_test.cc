#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

LabelledRows RowsOf(size_t count, uint64_t seed, int distinct, bool are_weighted = false) {
  Random random(seed);
  LabelledRows rows;
  for (size_t row = 0; row < count; ++row) {
    const double p =
        static_cast<double>(random.Below(static_cast<uint64_t>(distinct)) + 1) / (distinct + 1);
    rows.predictions.push_back(static_cast<float>(p));
    rows.labels.push_back(random.Uniform() < p ? 1.0F : 0.0F);
    rows.weights.push_back(are_weighted ? static_cast<float>(0.5 + random.Uniform()) : 1.0F);
    rows.units.push_back(row + 1);
    rows.places.push_back(static_cast<uint32_t>(row));
  }
  return rows;
}

TEST_CASE("Deciles have a tenth of the rows each, and never part ties") {
  const LabelledRows rows = RowsOf(1'000, /*seed=*/1, /*distinct=*/1'000'000, true);
  const std::vector<PredictionBin> bins = DecilesOf(rows, /*are_shares=*/true);
  REQUIRE(bins.size() == 10);
  double before = 0;
  for (const PredictionBin& bin : bins) {
    CHECK(bin.rows == 100);
    CHECK(bin.lowest > before);
    before = bin.highest;
    double weight = 0;
    double labels = 0;
    double predictions = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (rows.predictions[row] < bin.lowest || rows.predictions[row] > bin.highest) continue;
      weight += rows.weights[row];
      labels += double{rows.weights[row]} * rows.labels[row];
      predictions += double{rows.weights[row]} * rows.predictions[row];
    }
    CHECK(bin.label == Approx(labels / weight));
    CHECK(bin.prediction == Approx(predictions / weight));
    CHECK(bin.interval.Holds(bin.label));
  }
  const std::vector<PredictionBin> tied = DecilesOf(RowsOf(1'000, 2, /*distinct=*/4), true);
  CHECK(tied.size() == 4);
  for (const PredictionBin& bin : tied) CHECK(bin.lowest == bin.highest);
  CHECK(DecilesOf({}, true).empty());
  CHECK(DecilesOf(RowsOf(3, 3, 1'000'000), true).size() == 3);
}

TEST_CASE("Points of the curves are those of their thresholds") {
  const int distinct = GENERATE(5, 1'000'000);
  const LabelledRows rows = RowsOf(2'000, /*seed=*/4, distinct, /*are_weighted=*/true);
  const RankingCurves curves = CurvesOf(rows);
  CHECK(curves.points.size() <= 202);
  CHECK(curves.points.size() >= std::min<size_t>(5, curves.points.size()));
  CHECK(curves.points.back().recall == Approx(1));
  CHECK(curves.points.back().fall_out == Approx(1));
  double positives = 0;
  double all = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    all += rows.weights[row];
    positives += double{rows.weights[row]} * rows.labels[row];
  }
  std::vector<OperatingPoint> points = curves.points;
  points.insert(points.end(), curves.choices.begin(), curves.choices.end());
  for (const OperatingPoint& point : points) {
    double selected = 0;
    double found = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (rows.predictions[row] < static_cast<float>(point.threshold)) continue;
      selected += rows.weights[row];
      found += double{rows.weights[row]} * rows.labels[row];
    }
    CHECK(point.share == Approx(selected / all));
    CHECK(point.recall == Approx(found / positives));
    CHECK(point.fall_out == Approx((selected - found) / (all - positives)));
    CHECK(point.precision == Approx(found / selected));
  }
}

TEST_CASE("One class has no curves") {
  LabelledRows rows = RowsOf(10, /*seed=*/5, /*distinct=*/100);
  std::ranges::fill(rows.labels, 0.0F);
  CHECK(CurvesOf(rows).points.empty());
  CHECK(CurvesOf({}).points.empty());
}

TEST_CASE("Histograms count all rows") {
  const LabelledRows rows = RowsOf(500, /*seed=*/6, /*distinct=*/100'000, true);
  const BinnedCounts counts = ScoresByLabel(rows);
  double positives = 0;
  double all = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    all += rows.weights[row];
    positives += double{rows.weights[row]} * rows.labels[row];
  }
  const double first = std::accumulate(counts.first.begin(), counts.first.end(), 0.0);
  const double second = std::accumulate(counts.second.begin(), counts.second.end(), 0.0);
  CHECK(first == Approx(positives));
  CHECK(first + second == Approx(all));
  LabelledRows equal = rows;
  std::ranges::fill(equal.predictions, 0.5F);
  CHECK(ScoresByLabel(equal).first.front() == Approx(positives));
  CHECK(ScoresByLabel({}).first.front() == 0);
}

TEST_CASE("Residuals have the percentiles of their values") {
  LabelledRows rows;
  for (int i = 0; i <= 100; ++i) {
    rows.predictions.push_back(7);
    rows.labels.push_back(static_cast<float>(7 + i - 50));
    rows.weights.push_back(1);
  }
  const Residuals found = ResidualsOf(rows);
  CHECK(found.percentiles == std::vector<double>{-49, -45, -25, 0, 25, 45, 49});
  CHECK(found.mean == Approx(0).margin(1e-9));
  CHECK(found.r_squared == Approx(0).margin(1e-9));
  CHECK(std::accumulate(found.histogram.first.begin(), found.histogram.first.end(), 0.0) ==
        Approx(101));
}

}  // namespace
}  // namespace simurgh
