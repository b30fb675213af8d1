#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "simurgh/base/hash.h"
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
