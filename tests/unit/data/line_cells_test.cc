// Lines of all formats, split into cells: they give the batch of the lines.

#include "data/reading/line_cells.h"

#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "data/reading/row_batcher.h"
#include "data/reading/row_text.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Format = DataConfig::Format;

struct Setup {
  DataConfig data;
  std::vector<FeatureConfig> features;
  std::vector<std::string> lines;
};

DataConfig Columns(Format format) {
  DataConfig data;
  data.format = format;
  data.columns = {Column("y", Kind::kLabel),   Column("x", Kind::kDense),
                  Column("city", Kind::kId),   Column("tags", Kind::kId),
                  Column("note", Kind::kSkip), Column("weight", Kind::kWeight)};
  data.columns[3].separator = '|';
  return data;
}

std::vector<Setup> Setups() {
  const std::vector<FeatureConfig> features = {Feature("city"), Feature("tags")};
  Setup csv{Columns(Format::kCsv),
            features,
            {"1,2.5,Bern,a|b,n,1", R"(0,,"a ""quoted"", one",,n,2)", " 1 , 3 ,  Ulm , b , n , 1 "}};
  Setup json{Columns(Format::kJson),
             features,
             {R"({"y": 1, "x": 2.5, "city": "Bern", "tags": ["a", "b"], "weight": 1})",
              R"({"y": 0, "city": "G\u00f6rlitz \"x\"", "tags": [], "weight": 2})",
              R"({"y": 0, "x": "7", "city": 12, "tags": ["b"], "note": {"a": 1}, "weight": 1})"}};
  Setup criteo{{}, {Feature("C1"), Feature("C26")}, {}};
  criteo.data.format = Format::kCriteo;
  std::string line = "1";
  for (int i = 0; i < 13; ++i) line += i == 3 ? "\t" : "\t7";
  for (int i = 0; i < 26; ++i) line += i == 5 ? "\t" : "\t0123abcd";
  criteo.lines = {line, line.substr(2)};  // The second one has no label.
  Setup libsvm{{}, {}, {"1 3:0.5 7:2", "-1 1:1", "0"}};
  libsvm.data.format = Format::kLibsvm;
  libsvm.data.columns = PairColumns(libsvm.data);
  FeatureConfig pairs = Feature("features");
  pairs.weight_separator = ':';
  pairs.pooling = Pooling::kWeightedSum;
  libsvm.features = {pairs};
  // Lines of Parquet data: ids of lists keep their blanks and line ends.
  Setup parquet{LinesOf(Columns(Format::kParquet)),
                features,
                {"1,2.5,Bern,a|b,n,1", "0,3,\"Bern\x1f Bern\n\",\" a\",n,2"}};
  return {csv, json, criteo, libsvm, parquet};
}

TEST_CASE("Cells of lines give the batch of the lines") {
  const std::vector<Setup> setups = Setups();
  const size_t index = GENERATE(size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4});
  CAPTURE(index);
  const Setup& setup = setups[index];
  RowBatcher of_lines = RowBatcher::Create(setup.data, setup.features, true).value();
  RowBatcher of_cells = RowBatcher::Create(setup.data, setup.features, true).value();
  LineCells splitter(setup.data);
  for (const std::string& line : setup.lines) {
    CAPTURE(line);
    REQUIRE(of_lines.AddLine(line) == absl::OkStatus());
    const std::span<const Cell> cells = splitter.Split(line, /*columns=*/nullptr).value();
    std::vector<const Cell*> places;
    for (const Cell& cell : cells) places.push_back(&cell);
    REQUIRE(of_cells.AddCells(places, {}) == absl::OkStatus());
  }
  const Batch wanted = of_lines.Build().value();
  const Batch found = of_cells.Build().value();
  CHECK(found.sparse->ids == wanted.sparse->ids);
  CHECK(found.sparse->occurrences == wanted.sparse->occurrences);
  CHECK(found.sparse->offsets == wanted.sparse->offsets);
  CHECK(found.sparse->weights == wanted.sparse->weights);
  CHECK(found.dense.values == wanted.dense.values);
}

TEST_CASE("Columns of a file are found at their places") {
  const DataConfig data = Columns(Format::kCsv);
  LineCells splitter(data);
  // The file has tags, x and city; labels and weights are absent.
  const FileColumns file{
      .width = 4,
      .cells = {FileColumns::kAbsent, 2, 3, 0, FileColumns::kAbsent, FileColumns::kAbsent}};
  const std::span<const Cell> cells = splitter.Split("a|b,other,1.5,Bern", &file).value();
  REQUIRE(cells.size() == 4);  // x, city, tags and note.
  CHECK(cells[0].text == "1.5");
  CHECK(cells[1].text == "Bern");
  CHECK(cells[2].text == "a|b");
  CHECK(cells[3].kind == Cell::Kind::kMissing);
}

TEST_CASE("Lines that cannot be split are refused") {
  LineCells csv(Columns(Format::kCsv));
  CHECK_FALSE(csv.Split("1,2", nullptr).ok());
  CHECK_FALSE(csv.Split("1,\"2", nullptr).ok());
  LineCells json(Columns(Format::kJson));
  CHECK_FALSE(json.Split("[1]", nullptr).ok());
}

}  // namespace
}  // namespace simurgh
