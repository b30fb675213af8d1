// Rows of JSON, libsvm and libffm through the reader, compared with the same rows in CSV.

#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/statistics.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

DataConfig Example(DataConfig::Format format) {
  DataConfig config;
  config.format = format;
  config.missing_values = {"", "?"};
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense), Column("city", Kind::kId),
                    Column("tags", Kind::kId), Column("note", Kind::kSkip)};
  config.columns[1].missing = 9;
  config.columns[3].separator = '|';
  return config;
}

std::vector<FeatureConfig> Features() { return {Feature("city"), Feature("tags")}; }

std::vector<ReadSample> Samples(const DataConfig& config, const std::string& text) {
  const TemporaryFolder folder;
  const auto samples = ReadSamples(config, Features(), {folder.Write("rows", text)}, 2);
  REQUIRE(samples.status() == absl::OkStatus());
  return *samples;
}

void CheckEqual(const std::vector<ReadSample>& one, const std::vector<ReadSample>& other) {
  REQUIRE(one.size() == other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    CAPTURE(i);
    CHECK(one[i].label == other[i].label);
    CHECK(one[i].dense == other[i].dense);
    CHECK(one[i].ids == other[i].ids);
  }
}

TEST_CASE("JSON objects give the samples of the same cells in CSV") {
  const std::vector<ReadSample> csv = Samples(Example(DataConfig::Format::kCsv),
                                              "1,0.5,Rome,a|b c|d,\n"
                                              "0,-2e3,,,n\n"
                                              "1,,\"a \"\"b\"\"\",x,\n"
                                              "0,1,7,1|2|7.0,\n"
                                              "1,0,7.0,,\n"
                                              "0,3,true,\xc3\xa9|?,\n");
  const std::vector<ReadSample> json = Samples(
      Example(DataConfig::Format::kJson),
      "{\"y\": 1, \"x\": 0.5, \"city\": \"Rome\", \"tags\": [\"a\", \"b c\", \"d\"]}\n"
      "{\"note\": {\"city\": [1, {}]}, \"tags\": null, \"x\":-2e3, \"y\":\"0\"}\n\n"
      "{\"other\": [[1], {\"y\": 3}], \"y\": true, \"city\": \"a \\\"b\\\"\", \"tags\": \"x\"}\r\n"
      "{\"y\": 0, \"x\": true, \"city\": 7, \"tags\": [1, null, 2, 7.0]}\n"
      "{\"y\": 1.0, \"x\": false, \"city\": 7.0, \"tags\": []}\n"
      "{\"y\": false, \"x\": \"3\", \"city\": true, \"tags\": \"\\u00e9|?\"}");
  CheckEqual(json, csv);
}

TEST_CASE("An array is a list in any id column of JSON, and header_name is the key") {
  DataConfig config = Example(DataConfig::Format::kJson);
  config.columns[2].header_name = "City of birth";
  const auto samples =
      Samples(config, "{\"y\": 1, \"City of birth\": [\"a\", \"b\"], \"city\": \"c\"}\n");
  DataConfig csv = Example(DataConfig::Format::kCsv);
  csv.columns[2].separator = ' ';
  CheckEqual(samples, Samples(csv, "1,,a b,,\n"));
}

TEST_CASE("Bad rows of JSON name file, line, and column or byte") {
  const DataConfig config = Example(DataConfig::Format::kJson);
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"y\": 1",
       "the row is not JSON: incomplete JSON at byte 7 in column 'y'; send one JSON object in "
       "UTF-8"},
      {"{\"y\": 1, \"x\": NaN}",
       "the row is not JSON: NaN at byte 14 in column 'x'; use null for a missing value, and "
       "double "
       "quotes around a text"},
      {"{\"y\": 1}}", "the row is not JSON: more text after the object at byte 8; send one object"},
      {"[1]", "the row is no JSON object; write {\"column\": value, ...}"},
      {"7", "the row is no JSON object; write {\"column\": value, ...}"},
      {"{\"y\": 1, \"city\": {}}",
       "column 'city': is an object; give a text, a number, or an array of these"},
      {"{\"y\": 1, \"city\": [{}]}",
       "column 'city': is an object; give a text, a number, or an array of these"},
      {"{\"y\": 1, \"tags\": [[1]]}", "column 'tags': has an array in an array; give one array"},
      {"{\"y\": 1, \"x\": [1]}", "column 'x': it has one number, not a list; correct the row"},
      {"{\"y\": [1]}", "column 'y': it has one value, not a list; correct the row"},
      {"{\"y\": 1, \"y\": 1}", "column 'y': is given twice; remove one"},
      {"{\"x\": 1}",
       "column 'y': '' is not a label, 0 or 1; correct it, list the texts of 1 as `positive`, or "
       "choose the loss squared_error"},
      {"{\"y\": 1, \"x\": \"a\"}",
       "column 'x': 'a' is not a finite number; correct it, or add it to data.missing_values"}};
  for (const auto& [row, error] : cases) {
    const std::string file = folder.Write("rows", "{\"y\": 1}\n" + row + "\n");
    CHECK(ReadSamples(config, Features(), {file}, 1).status().message() == file + ":2: " + error);
  }
}

TEST_CASE("Cells of JSON are copied as text") {
  const DataConfig config = Example(DataConfig::Format::kJson);
  RowText text = RowText::Create(config, {"tags", "city", "y", "x"}).value();
  std::string out;
  text.AppendCells("{\"y\": 1, \"city\": \"a,\\nb\", \"tags\": [\"p\", 2]}", out);
  CHECK(out == "p|2,\"a,\nb\",1,,");
  out.clear();
  text.AppendCells("{\"y\": 1", out);
  CHECK(out == ",,,,");
}

DataConfig Pairs(uint32_t fields) {
  DataConfig config;
  config.format = fields == 0 ? DataConfig::Format::kLibsvm : DataConfig::Format::kLibffm;
  config.libffm_fields = fields;
  config.columns = PairColumns(config);
  return config;
}

FeatureConfig Weighted(const std::string& name) {
  FeatureConfig feature = Feature(name);
  feature.pooling = Pooling::kWeightedSum;
  feature.weight_separator = ':';
  return feature;
}

// The only batch of a file.
Batch OneBatch(const DataConfig& config, const std::vector<FeatureConfig>& features,
               const std::string& text) {
  const TemporaryFolder folder;
  const auto reader = OpenBatchReader(config, features, {folder.Write("rows", text)}, 100);
  REQUIRE(reader.ok());
  auto batch = (*reader)->Next();
  REQUIRE(batch.status() == absl::OkStatus());
  REQUIRE(batch->has_value());
  return **std::move(batch);
}

void CheckEqual(const Batch& one, const Batch& other) {
  CHECK(one.dense.labels == other.dense.labels);
  CHECK(one.sparse->ids == other.sparse->ids);
  CHECK(one.sparse->occurrences == other.sparse->occurrences);
  CHECK(one.sparse->offsets == other.sparse->offsets);
  CHECK(one.sparse->weights == other.sparse->weights);
}

TEST_CASE("libsvm and libffm give the batches of weighted lists in CSV") {
  DataConfig csv;
  csv.columns = {Column("y", Kind::kLabel), Column("a", Kind::kId), Column("b", Kind::kId)};
  for (const size_t column : {1, 2}) csv.columns[column].separator = ' ';
  CheckEqual(OneBatch(Pairs(0), {Weighted("features")},
                      "+1 3:0.5 7:1 3:-2e3\n-1\n\n0 \t 8:0  9:4 \r\n1 18446744073709551615:1"),
             OneBatch(csv, {Weighted("a")},
                      "1,3:0.5 7:1 3:-2e3,\n0,,\n0,8:0 9:4,\n1,18446744073709551615:1,\n"));
  CheckEqual(OneBatch(Pairs(2), {Weighted("field0"), Weighted("field1")},
                      "1 1:5:0.5 0:6:1 1:7:2\n-1 0:5:1\n0\n"),
             OneBatch(csv, {Weighted("a"), Weighted("b")}, "1,6:1,5:0.5 7:2\n0,5:1,\n0,,\n"));
}

// Expected values are by hand: 2000, 2002, 2004 and 2006 have the mean 2003 and the variance 5; 100
// and 300 have the mean square 50,000.
TEST_CASE("Large values of libsvm are scaled by those of the training files") {
  const TemporaryFolder folder;
  DataConfig config = Pairs(0);
  config.columns[1].fit = true;
  config.train = {
      folder.Write("train", "1 3:100 5:2000 7:0.5\n0 5:2002 9:1\n1 3:-300 5:2004 7:9\n0 5:2006\n")};
  std::vector<FeatureConfig> features = {Weighted("features")};
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  const auto& scales = config.columns[1].value_scales;
  REQUIRE(scales.size() == 2);
  CHECK(scales.at(3).mean == 0);
  CHECK(scales.at(3).stddev == Approx(std::sqrt(50'000)));
  CHECK(scales.at(5).mean == 2003);
  CHECK(scales.at(5).stddev == Approx(std::sqrt(5)));
  const Batch scaled = OneBatch(config, features, "1 3:100 4:3 5:2001 9:1\n0 7:9\n");
  const std::vector<float> expected = {100 / std::sqrt(50'000.0F), 3, -2 / std::sqrt(5.0F), 1, 9};
  REQUIRE(scaled.sparse->weights.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(scaled.sparse->weights[i] == Approx(expected[i]));
  }
  // A model has them.
  DataConfig loaded = Pairs(0);
  loaded.columns[1].fit = true;
  REQUIRE(ApplyStatistics(StatisticsOf(config, features), loaded, features) == absl::OkStatus());
  CHECK(loaded.columns[1].value_scales == scales);
}

TEST_CASE("Comments and query ids of libsvm are left out") {
  const std::string rows =
      "# label index:value\n \t# indented\n1 qid:7 3:0.5 # 7:1\n0 #\n#\n+1 qid:8\n";
  CheckEqual(OneBatch(Pairs(0), {Weighted("features")}, rows),
             OneBatch(Pairs(0), {Weighted("features")}, "1 3:0.5\n0\n1\n"));
}

TEST_CASE("Labels of libsvm are -1 and 1, or numbers") {
  DataConfig config = Pairs(0);
  const std::string rows = "-1 1:1\n+1\n0\n";
  CHECK(OneBatch(config, {Weighted("features")}, rows).dense.labels == std::vector<float>{0, 1, 0});
  config.columns[0].label_values = ColumnConfig::LabelValues::kNumbers;
  CHECK(OneBatch(config, {Weighted("features")}, rows + "-2.5 3:1\n").dense.labels ==
        std::vector<float>{-1, 1, 0, -2.5});
}

TEST_CASE("Bad rows of libsvm and libffm name file, line, and pair or column") {
  const TemporaryFolder folder;
  const auto error = [&folder](uint32_t fields, const std::string& row) {
    const std::string file = folder.Write("rows", "1\n" + row + "\n");
    const Status status =
        ReadSamples(Pairs(fields), {Weighted(fields == 0 ? "features" : "field0")}, {file}, 1)
            .status();
    const std::string message(status.message());
    CHECK(message.starts_with(file + ":2: "));
    return message.substr(std::min(message.size(), file.size() + 4));
  };
  const std::string svm = " is not index:value, an integer and a number; correct the row";
  const std::string ffm = " is not field:index:value, an integer and a number; correct the row";
  CHECK(error(0, "1 2:3 a:1") == "pair 2: 'a:1'" + svm);
  CHECK(error(0, "1 7") == "pair 1: '7'" + svm);
  CHECK(error(0, "1 7:") == "pair 1: '7:'" + svm);
  CHECK(error(0, "1 7:nan") == "pair 1: '7:nan'" + svm);
  CHECK(error(0, "1 -7:1") == "pair 1: '-7:1'" + svm);
  CHECK(error(0, "1 7:1 qid:1") == "pair 2: 'qid:1'" + svm);
  CHECK(error(2, "1 qid:1") == "pair 1: 'qid:1'" + ffm);
  CHECK(error(2, "1 0:7") == "pair 1: '0:7'" + ffm);
  CHECK(error(2, "1 :7:1") == "pair 1: ':7:1'" + ffm);
  CHECK(error(2, "1 2:7:1") ==
        "pair 1: field '2' is not below data.libffm.fields, 2; correct one of them");
  CHECK_THAT(error(0, "2 7:1"), Catch::StartsWith("column 'label': '2' is not a label, 0 or 1"));
  CHECK_THAT(error(0, "7:1"), Catch::StartsWith("column 'label': '' is not a label, 0 or 1"));
}

}  // namespace
}  // namespace simurgh
