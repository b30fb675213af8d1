// What a prediction needs of a reader: rows as text, rows without labels, pipes.

#include "data/reading/row_text.h"

#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Rows = std::vector<std::pair<std::string, bool>>;

// Two labels around an id column and a dense one.
DataConfig TwoLabels() {
  DataConfig config;
  config.columns = {Column("a", Kind::kLabel), Column("id", Kind::kId), Column("b", Kind::kLabel),
                    Column("x", Kind::kDense)};
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  return config;
}

struct Read {
  Rows rows;
  std::vector<float> dense;
  std::vector<float> labels;
};

Read ReadRows(const DataConfig& config, const std::string& file, ReadOptions options) {
  Read read;
  options.on_row = [&](std::string_view line, bool in_batch) {
    read.rows.emplace_back(line, in_batch);
  };
  auto reader = OpenBatchReader(config, {Feature(config.columns.empty() ? "C1" : "id")}, {file},
                                /*batch_size=*/2, options)
                    .value();
  while (const auto batch = reader->Next().value()) {
    const DenseBatch& dense = batch->dense;
    read.dense.insert(read.dense.end(), dense.values.begin(), dense.values.end());
    read.labels.insert(read.labels.end(), dense.labels.begin(), dense.labels.end());
  }
  return read;
}

TEST_CASE("An observer gets every row in order") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("f", "1,u,0,1.5\n\nbad\n0,v,1,2.5\r\n0,w,2,3\n1,w,1,4");
  const Read read = ReadRows(TwoLabels(), file, {});
  CHECK(read.rows == Rows{{"1,u,0,1.5", true},
                          {"bad", false},
                          {"0,v,1,2.5", true},
                          {"0,w,2,3", false},
                          {"1,w,1,4", true}});
  CHECK(read.dense == std::vector<float>{1.5, 2.5, 4});
  CHECK(read.labels == std::vector<float>{1, 0, 0, 1, 1, 1});
}

TEST_CASE("Labels that are ignored may be anything or missing") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("f", "1,u,0,1.5\n?,v,,2.5\nw,3\nw,3,4\n");
  const Read read = ReadRows(TwoLabels(), file, {.ignore_labels = true});
  CHECK(read.rows ==
        Rows{{"1,u,0,1.5", true}, {"?,v,,2.5", true}, {"w,3", true}, {"w,3,4", false}});
  CHECK(read.dense == std::vector<float>{1.5, 2.5, 3});
  CHECK(read.labels == std::vector<float>(6));
}

TEST_CASE("Criteo rows without labels") {
  DataConfig config;
  config.format = DataConfig::Format::kCriteo;
  config.criteo.labels = 2;
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  const std::string cells = "0" + std::string(38, '\t');
  const TemporaryFolder folder;
  const std::string file =
      folder.Write("f", cells + "\n1\t0\t" + cells + "\nx\ty\t" + cells + "\n1\t" + cells + "\n");
  const Read ignoring = ReadRows(config, file, {.ignore_labels = true});
  REQUIRE(ignoring.rows.size() == 4);
  CHECK((ignoring.rows[0].second && ignoring.rows[1].second && ignoring.rows[2].second));
  CHECK(!ignoring.rows[3].second);
  CHECK(ignoring.labels == std::vector<float>(6));
  const Read reading = ReadRows(config, file, {});
  CHECK(!reading.rows[0].second);
  CHECK(reading.rows[1].second);
  CHECK(reading.labels == std::vector<float>{1, 0});

  RowText text = RowText::Create(config, {"C26", "I1"}).value();
  std::string copied;
  text.AppendCells("7" + std::string(38, '\t') + "ff", copied);
  text.AppendCells("0\t1\t8" + std::string(38, '\t') + "fe", copied);
  CHECK(copied == "ff,7,fe,8,");
}

TEST_CASE("A pipe is read only where it is allowed") {
  const TemporaryFolder folder;
  const std::string pipe = folder.Path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(absl::IsFailedPrecondition(
      OpenBatchReader(TwoLabels(), {Feature("id")}, {pipe}, 2, {}).status()));
  std::thread writer([&] { std::ofstream(pipe) << "1,u,0,1.5\n"; });
  const Read read = ReadRows(TwoLabels(), pipe, {.allow_pipes = true});
  writer.join();
  CHECK(read.rows == Rows{{"1,u,0,1.5", true}});
}

TEST_CASE("Cells are copied as text, quoted as needed") {
  RowText text = RowText::Create(TwoLabels(), {"x", "id", "a"}).value();
  const auto copy = [&](std::string_view line) {
    std::string copied;
    text.AppendCells(line, copied);
    return copied;
  };
  CHECK(copy("1, u\t,0,\" 1.5\"") == "\" 1.5\",\" u\t\",1,");
  CHECK(copy("1,\"a,\"\"b\",0,2") == "2,\"a,\"\"b\",1,");
  CHECK(copy("u,2") == "2,u,,");
  CHECK(copy("1,\"u") == ",,,");
  CHECK(copy("1,2,3") == ",,,");
  const Status unknown = RowText::Create(TwoLabels(), {"id", "y"}).status();
  CHECK(unknown == absl::InvalidArgumentError("no column is named 'y'; use some of a, id, b, x"));
}

}  // namespace
}  // namespace simurgh
