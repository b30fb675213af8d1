// Rows of JSON through the reader, compared with the same rows in CSV.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"
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
       "the row is not JSON: incomplete JSON at byte 7; send one JSON object in UTF-8"},
      {"{\"y\": 1}}", "the row is not JSON: more text after the object at byte 8; send one object"},
      {"[1]", "the row is no JSON object; write {\"column\": value, ...}"},
      {"7", "the row is no JSON object; write {\"column\": value, ...}"},
      {"{\"y\": 1, \"city\": {}}",
       "column 'city': is an object; give a text, a number, or an array of these"},
      {"{\"y\": 1, \"city\": [{}]}",
       "column 'city': is an object; give a text, a number, or an array of these"},
      {"{\"y\": 1, \"tags\": [[1]]}", "column 'tags': has an array in an array; give one array"},
      {"{\"y\": 1, \"x\": [1]}", "column 'x': it has one number, not a list; correct the row"},
      {"{\"y\": [1]}", "column 'y': a label is one value, not a list; correct the row"},
      {"{\"y\": 1, \"y\": 1}", "column 'y': is given twice; remove one"},
      {"{\"x\": 1}",
       "column 'y': '' is not a label, 0 or 1; correct it, or list the texts that mean 1 as "
       "`positive`"},
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

}  // namespace
}  // namespace simurgh
