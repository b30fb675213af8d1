#include "report/input_scan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

ClusterConfig Config() {
  ClusterConfig config;
  config.data.columns = {{.name = "y", .kind = ColumnConfig::Kind::kLabel},
                         {.name = "x", .kind = ColumnConfig::Kind::kDense},
                         {.name = "site", .kind = ColumnConfig::Kind::kId}};
  config.model.tasks = {{.label = "y"}};
  return config;
}

// Gives rows to a scan, in pieces. Row i has the number i as prediction, the text "i" and, of
// column `site`, one of three values.
void Scan(size_t rows, InputScan& scan, bool has_groups = false) {
  for (size_t first = 0; first < rows; first += 100) {
    const size_t count = std::min<size_t>(100, rows - first);
    BatchBuilder builder(/*feature_count=*/0, /*dense_width=*/1);
    std::vector<float> predictions;
    std::vector<std::string> texts;
    std::vector<std::string> cells;
    for (size_t row = first; row < first + count; ++row) {
      builder.SetLabel(row % 4 == 0 ? 1 : 0);
      builder.SetDense(0, static_cast<float>(row));
      if (has_groups) builder.SetGroup(row / 10 + 1);
      builder.EndSample();
      predictions.push_back(static_cast<float>(row) / static_cast<float>(rows));
      texts.push_back(absl::StrCat(row));
      cells.push_back(absl::StrCat(" s", row % 3, " "));
    }
    const std::vector<std::string_view> lines(texts.begin(), texts.end());
    scan.Add(builder.Build().value(), predictions, lines, nullptr, cells);
  }
}

TEST_CASE("A scan of many rows has exact sums, and samples of equal rows") {
  constexpr size_t kRows = 10'000;
  const ClusterConfig config = Config();
  const InputScan::Options options{.sample_rows = 500, .importance_rows = 200, .by = {"site"}};
  InputScan scan(config, config.data, options, std::nullopt);
  Scan(kRows, scan);
  CHECK(scan.sums(0).samples == kRows);
  CHECK(scan.sums(0).labels == kRows / 4);
  CHECK(scan.sums(0).predicted == Approx((kRows - 1) / 2.0));
  REQUIRE(scan.numbers().size() == 1);
  CHECK(scan.numbers()[0].mean == Approx((kRows - 1) / 2.0));

  const PredictedSample& sample = scan.sample();
  REQUIRE(sample.rows() == 500);
  double mean = 0;
  for (size_t place = 0; place < sample.rows(); ++place) {
    const auto row = static_cast<size_t>(std::lround(sample.predictions[place] * kRows));
    CHECK(sample.labels[place] == (row % 4 == 0 ? 1 : 0));
    mean += sample.predictions[place] / 500;
  }
  CHECK(mean == Approx(0.5).margin(5 * 0.29 / std::sqrt(500)));

  const ImportanceRows& rows = scan.importance_rows();
  REQUIRE(rows.lines.size() == 200);
  for (size_t place = 0; place < 200; ++place) {
    const size_t row = std::stoul(rows.lines[place]);
    CHECK(rows.sample.labels[place] == (row % 4 == 0 ? 1 : 0));
    CHECK(rows.sample.predictions[place] * kRows == Approx(row).margin(0.01));
  }

  const std::vector<SegmentsReport> segments = scan.TakeSegments({});
  REQUIRE(segments.size() == 1);
  REQUIRE(segments[0].segments.size() == 3);
  for (const SegmentReport& segment : segments[0].segments) {
    CHECK(segment.rows >= 3'333);
    CHECK(segment.labels[0].mean_label == Approx(0.25).epsilon(0.001));
    // Labels do not depend on predictions. The AUC is that of the sample.
    CHECK(segment.labels[0].metrics.auc == Approx(0.5).margin(0.2));
  }

  // The same rows again have the same sample, also with other options.
  InputScan again(config, config.data, {.sample_rows = 500}, std::nullopt);
  Scan(kRows, again);
  CHECK(again.sample().predictions == sample.predictions);
}

TEST_CASE("Rows without labels count in no sum") {
  const ClusterConfig config = Config();
  InputScan scan(config, config.data, {.has_labels = false}, std::nullopt);
  Scan(100, scan);
  CHECK(scan.sums(0).samples == 0);
  CHECK(scan.sample().rows() == 100);
  CHECK(scan.sample().RowsOf(0).size() == 0);
  CHECK_FALSE(scan.has_groups());
}

TEST_CASE("Rows of a group are one unit, and other rows are units of their own") {
  const ClusterConfig config = Config();
  for (const bool has_groups : {false, true}) {
    InputScan scan(config, config.data, {}, std::nullopt);
    Scan(100, scan, has_groups);
    CHECK(scan.has_groups() == has_groups);
    std::vector<uint64_t> units = scan.sample().RowsOf(0).units;
    std::ranges::sort(units);
    units.erase(std::unique(units.begin(), units.end()), units.end());
    CHECK(units.size() == (has_groups ? 10 : 100));
  }
}

TEST_CASE("Columns without a name in --by are counted if they have few values") {
  const ClusterConfig config = Config();
  InputScan scan(config, config.data, {.others = {"site"}}, std::nullopt);
  Scan(100, scan);
  CHECK(scan.CountedColumns() == std::vector<std::string>{"site"});
  CHECK(scan.TakeSegments({"site"})[0].segments.size() == 3);
  CHECK(scan.TakeSegments({}).empty());
}

}  // namespace
}  // namespace simurgh
