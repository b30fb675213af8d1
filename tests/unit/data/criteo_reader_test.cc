#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "data/reading/row_batcher.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Ids = std::vector<uint64_t>;

DataConfig Criteo() {
  DataConfig config;
  config.format = DataConfig::Format::kCriteo;
  return config;
}

// A row of empty cells, but for those given.
std::string Row(const std::string& label, const std::vector<std::pair<int, std::string>>& cells) {
  std::vector<std::string> row(40);
  row[0] = label;
  for (const auto& [index, text] : cells) row[index] = text;
  std::string line = row[0];
  for (size_t n = 1; n < row.size(); ++n) line += "\t" + row[n];
  return line + "\n";
}

TEST_CASE("Criteo rows: log1p of signed integers, hexadecimal ids, empty cells") {
  const TemporaryFolder folder;
  const std::string file = folder.Write(
      "day_0",
      Row("1", {{1, "5"}, {2, "-2"}, {13, "0"}, {14, "68fd1e64"}, {39, "00000000000000ff"}}) +
          Row("0", {{15, "ffffFFFFffffffff"}, {16, "0"}}));
  const auto samples = ReadSamples(
      Criteo(), {Feature("C1"), Feature("C2"), Feature("C3"), Feature("C26"), Feature("I2")},
      {file});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 2);
  const ReadSample& first = (*samples)[0];
  CHECK(first.label == 1.0F);
  REQUIRE(first.dense.size() == 13);
  CHECK(first.dense[0] == Approx(std::log(6.0)));
  CHECK(first.dense[1] == Approx(-std::log(3.0)));
  CHECK(first.dense[2] == 0.0F);
  CHECK(first.dense[12] == 0.0F);
  CHECK(first.ids == std::vector<Ids>{{0x68fd1e64}, {}, {}, {255}, {HashBytes("-2")}});
  const ReadSample& second = (*samples)[1];
  CHECK(second.label == 0.0F);
  CHECK(second.dense == std::vector<float>(13, 0.0F));
  CHECK(second.ids == std::vector<Ids>{{}, {~uint64_t{0}}, {0}, {}, {}});
}

TEST_CASE("Criteo rows may begin with several labels") {
  const TemporaryFolder folder;
  const std::string file =
      folder.Write("day_0", "0\t1\t" + Row("1", {{14, "a"}}) + "1\t0\t" + Row("0", {{14, "b"}}));
  DataConfig config = Criteo();
  config.criteo.labels = 3;
  CHECK(LabelColumns(config) == std::vector<std::string>{"label", "label2", "label3"});
  const auto reader = OpenBatchReader(config, {Feature("C1")}, {file}, 8);
  REQUIRE(reader.ok());
  const auto batch = (*reader)->Next();
  REQUIRE((batch.ok() && batch->has_value()));
  CHECK((*batch)->dense.tasks == 3);
  CHECK((*batch)->dense.labels == std::vector<float>{0, 1, 1, 1, 0, 0});
  CHECK((*batch)->sparse->ids == std::vector<uint64_t>{10, 11});

  const auto bad =
      ReadSamples(config, {Feature("C1")}, {folder.Write("bad", "0\t2\t" + Row("1", {}))});
  CHECK_THAT(std::string(bad.status().message()),
             Catch::Contains("column 'label2': '2' is not a label, 0 or 1"));
  const auto short_row =
      ReadSamples(config, {Feature("C1")}, {folder.Write("short", Row("1", {}))});
  CHECK_FALSE(short_row.ok());
}

// The id by its definition, or nothing.
std::optional<uint64_t> IdOf(std::string_view cell) {
  uint64_t id = 0;
  for (const char c : cell) {
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos || id >> 60 != 0) return std::nullopt;  // 64 bits.
    id = id * 16 + (digit < 16 ? digit : digit - 6);
  }
  return id;
}

TEST_CASE("Criteo ids of every length, with every byte in every place") {
  // The first id column, and the last, which ends the line.
  const auto [column, name] = GENERATE(std::pair(14, "C1"), std::pair(39, "C26"));
  RowBatcher batcher = RowBatcher::Create(Criteo(), {Feature(name)}, false).value();
  Random random(3);
  size_t valid = 0;
  for (size_t length = 1; length <= 18; ++length) {
    for (size_t place = 0; place < length; ++place) {
      for (int byte = 0; byte < 256; ++byte) {
        if (byte == '\t') continue;
        std::string cell;
        for (size_t i = 0; i < length; ++i) cell += "0123456789abcdefABCDEF"[random.Below(22)];
        cell[place] = static_cast<char>(byte);
        std::string line = Row("1", {{column, cell}, {13, "7"}, {15, "0123456789abcdef"}});
        line.pop_back();
        const std::optional<uint64_t> id = IdOf(cell);
        CAPTURE(cell);
        REQUIRE(batcher.AddLine(line).ok() == id.has_value());
        const Batch batch = batcher.Build().value();
        REQUIRE(batch.sparse->ids == (id ? Ids{*id} : Ids{}));
        valid += id ? 1 : 0;
      }
    }
  }
  CHECK(valid > 1'000);
}

TEST_CASE("Dense values of Criteo rows are scaled logarithms, to the bit") {
  DataConfig config = Criteo();
  for (int column = 0; column < 13; ++column) {
    config.criteo.mean.push_back(0.1 * column);
    config.criteo.stddev.push_back(1.0 + 0.3 * column);
  }
  std::vector<int64_t> values = {INT64_MIN, INT64_MAX};
  for (int64_t value = -1'100; value <= 2'100; ++value) values.push_back(value);
  RowBatcher batcher = RowBatcher::Create(config, {}, false).value();
  for (size_t first = 0; first < values.size(); ++first) {
    std::vector<std::pair<int, std::string>> cells;
    std::vector<float> expected;
    for (int column = 0; column < 13; ++column) {
      const int64_t value = values[(first + 100 * static_cast<size_t>(column)) % values.size()];
      cells.emplace_back(column + 1, std::to_string(value));
      const auto number = static_cast<double>(value);
      const double log = std::copysign(std::log1p(std::abs(number)), number);
      const auto index = static_cast<size_t>(column);
      expected.push_back(
          static_cast<float>((log - config.criteo.mean[index]) / config.criteo.stddev[index]));
    }
    std::string line = Row("0", cells);
    line.pop_back();
    REQUIRE(batcher.AddLine(line).ok());
    REQUIRE(batcher.Build()->dense.values == expected);
  }
}

TEST_CASE("Bad Criteo rows are named") {
  struct Bad {
    std::string row;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {Row("", {}), ":1: column 'label': '' is not a label, 0 or 1"},
      {Row("2", {}), "column 'label': '2'"},
      {Row("1", {{3, "1.5"}}), "column 'I3': '1.5' is not an integer of 64 bits"},
      {Row("1", {{13, "99999999999999999999"}}), "column 'I13'"},
      {Row("1", {{14, "68fd1e6g"}}), "column 'C1': '68fd1e6g' is not an id of 1 to 16 hexadecimal"},
      {Row("1", {{39, "11112222333344445"}}), "column 'C26'"},
      {Row("1", {{20, "-1"}}), "column 'C7': '-1'"},
      {"1\t2\t3\n", "3 tab-separated cells, the criteo format has 40"},
      {Row("1", {{39, "a\tb"}}), "41 tab-separated cells"},
      {Row("1", {}).substr(0, 30), "30 tab-separated cells"},
      {"1,2,3\n", "1 tab-separated cells"},
  }));
  const TemporaryFolder folder;
  const auto samples = ReadSamples(Criteo(), {Feature("C1")}, {folder.Write("day_0", bad.row)});
  CHECK(samples.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(samples.status().message()), Catch::Contains(bad.message));
}

TEST_CASE("The Criteo format has 13 dense columns") {
  CHECK(DenseColumns(Criteo()).size() == 13);
  CHECK(DenseColumns(Criteo()).back() == "I13");
}

}  // namespace
}  // namespace simurgh
