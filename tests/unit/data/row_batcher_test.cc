// Rows of cells whose columns repeat, against the same rows without reuse.

#include "data/reading/row_batcher.h"

#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

struct Setup {
  DataConfig data;
  std::vector<FeatureConfig> features;
};

// y,x,z,city,tags; x is also read as buckets.
Setup Csv() {
  Setup setup;
  setup.data.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense),
                        Column("z", Kind::kDense), Column("city", Kind::kId),
                        Column("tags", Kind::kId)};
  setup.data.columns[4].separator = '|';
  FeatureConfig cross = Feature("cross");
  cross.columns = {"city", "tags"};
  FeatureConfig bucket = Feature("bucket");
  bucket.column = "x";
  bucket.processing.boundaries = {0.0, 2.0};
  setup.features = {Feature("city"), Feature("tags"), cross, bucket};
  return setup;
}

Setup Criteo() {
  Setup setup;
  setup.data.format = DataConfig::Format::kCriteo;
  FeatureConfig bucket = Feature("bucket");
  bucket.column = "I2";
  bucket.processing.boundaries = {0.0, 2.0};
  FeatureConfig cross = Feature("cross");
  cross.columns = {"C1", "C2"};
  setup.features = {Feature("C1"), Feature("C2"), cross, bucket};
  return setup;
}

// A cell of the column; some are missing, some are refused.
Cell RandomCell(const ColumnConfig& column, DataConfig::Format format, std::mt19937& random) {
  static const std::vector<std::string_view> kTags = {"a", "b", "c"};
  const auto pick = [&random](uint32_t count) { return random() % count; };
  if (pick(8) == 0) return {};
  const bool is_bad = pick(30) == 0;
  if (column.kind == Kind::kDense) {
    if (is_bad) return {.kind = Cell::Kind::kText, .text = "no number"};
    if (pick(2) == 0) return {.kind = Cell::Kind::kText, .text = pick(2) == 0 ? "3" : "-1"};
    return {.kind = Cell::Kind::kNumber, .number = static_cast<double>(pick(5)) - 1};
  }
  if (is_bad) return {.kind = Cell::Kind::kNumber, .number = 0.5};
  if (column.separator != '\0' && pick(2) == 0) {
    return {.kind = Cell::Kind::kList, .list = std::span(kTags).first(pick(4))};
  }
  const bool is_list = format == DataConfig::Format::kCsv && column.separator != '\0';
  return {.kind = Cell::Kind::kText, .text = is_list ? "a|c" : kTags[pick(3)]};
}

TEST_CASE("Repeated cells give the batch that the same cells give one by one") {
  const Setup setup = GENERATE(Csv(), Criteo());
  RowBatcher reuses =
      RowBatcher::Create(setup.data, setup.features, /*ignore_labels=*/true).value();
  RowBatcher plain = RowBatcher::Create(setup.data, setup.features, /*ignore_labels=*/true).value();
  std::vector<ColumnConfig> columns;
  for (const ColumnConfig& column : ColumnsOf(setup.data)) {
    if (column.kind != Kind::kLabel) columns.push_back(column);
  }
  std::mt19937 random(7);
  size_t bad_rows = 0;
  for (int batches = 0; batches < 200; ++batches) {
    std::vector<Cell> cells(columns.size());
    const auto is_shared = std::make_unique<bool[]>(columns.size());
    bool has_row = false;
    for (int row = 0; row < 12; ++row) {
      if (row % 6 == 0) {  // Another request.
        has_row = false;
        for (size_t c = 0; c < columns.size(); ++c) is_shared[c] = random() % 2 == 0;
      }
      std::vector<const Cell*> places;
      for (size_t c = 0; c < columns.size(); ++c) {
        if (row % 6 == 0 || !is_shared[c]) {
          cells[c] = RandomCell(columns[c], setup.data.format, random);
        }
        places.push_back(&cells[c]);
      }
      const std::span<const bool> repeated(is_shared.get(), has_row ? columns.size() : 0);
      const Status one = reuses.AddCells(places, repeated);
      const Status other = plain.AddCells(places, {});
      REQUIRE(one == other);
      has_row |= one.ok();
      bad_rows += one.ok() ? 0 : 1;
    }
    const Batch one = reuses.Build().value();
    const Batch other = plain.Build().value();
    REQUIRE(one.dense.values == other.dense.values);
    REQUIRE(one.sparse->ids == other.sparse->ids);
    REQUIRE(one.sparse->occurrences == other.sparse->occurrences);
    REQUIRE(one.sparse->offsets == other.sparse->offsets);
  }
  CHECK(bad_rows > 10);
}

}  // namespace
}  // namespace simurgh
