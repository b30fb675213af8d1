// Columns found by their names in the headers of files.

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/data_position.h"
#include "data/reading/row_batcher.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Row = std::vector<std::string>;

DataConfig Example(bool header) {
  DataConfig config;
  config.csv.header = header;
  config.columns = {Column("y", Kind::kLabel),   Column("x", Kind::kDense),
                    Column("city", Kind::kId),   Column("tags", Kind::kId),
                    Column("note", Kind::kSkip), Column("z", Kind::kDense)};
  config.columns[3].separator = '|';
  return config;
}

std::vector<FeatureConfig> Features() { return {Feature("city"), Feature("tags")}; }

std::string LineOf(const Row& row, char separator) {
  std::string line;
  for (const std::string& cell : row) {
    if (&cell != &row.front()) line.push_back(separator);
    AppendCsvCell(cell, line, separator);
  }
  return line + "\n";
}

// The same rows twice: in the configured order without headers, and with headers, each file in an
// order of its own and with further columns.
struct Files {
  Files(Random& random, const DataConfig& config) {
    constexpr const char* kTexts[] = {"",  "Oslo",      "New \"York\"", " a,b", "a|b", "c;d|a",
                                      "?", "tab\there", "\"",           "7",    "ab",  "|"};
    const auto text = [&] { return std::string(kTexts[random.Below(std::size(kTexts))]); };
    for (int file = 0; file < 3; ++file) {
      Row names = {"y", "x", "city", "tags", "note", "z"};
      const size_t others = random.Below(4);
      for (size_t i = 0; i < others; ++i) names.push_back(absl::StrCat("other, ", i));
      std::vector<size_t> order(names.size());
      std::iota(order.begin(), order.end(), size_t{0});
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
      const auto shuffled = [&](const Row& row) {
        Row result;
        for (const size_t column : order) result.push_back(row[column]);
        return LineOf(result, config.csv.separator);
      };
      std::string plain;
      std::string named = shuffled(names);
      for (uint64_t n = random.Below(40); n > 0; --n) {
        Row row = {absl::StrCat(random.Below(2)),
                   absl::StrCat(random.Below(100), ".5"),
                   text(),
                   text(),
                   text(),
                   absl::StrCat(random.Below(9))};
        plain += LineOf(row, config.csv.separator);
        for (size_t i = 0; i < others; ++i) row.push_back(text());
        named += shuffled(row);
      }
      const auto pack = [&](const std::string& content) {
        return file == 0 ? content : file == 1 ? Gzip(content) : Zstd(content);
      };
      in_order.push_back(folder.Write(absl::StrCat("plain", file), pack(plain)));
      by_name.push_back(folder.Write(absl::StrCat("named", file), pack(named)));
    }
  }

  TemporaryFolder folder;
  std::vector<std::string> in_order;
  std::vector<std::string> by_name;
};

struct ReadBatch {
  std::vector<float> labels;
  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> ids;
  RowNumber next;

  bool operator==(const ReadBatch&) const = default;
};

std::vector<ReadBatch> ReadAll(const DataConfig& config, const std::vector<std::string>& files,
                               size_t batch_size, const ReadOptions& options) {
  auto reader = OpenBatchReader(config, Features(), files, batch_size, options);
  REQUIRE(reader.status() == absl::OkStatus());
  std::vector<ReadBatch> batches;
  for (;;) {
    const auto batch = (*reader)->Next();
    REQUIRE(batch.status() == absl::OkStatus());
    if (!batch->has_value()) return batches;
    ReadBatch read{.labels = (*batch)->dense.labels,
                   .dense = (*batch)->dense.values,
                   .ids = {},
                   .next = (*batch)->progress.next};
    for (size_t f = 0; f < Features().size(); ++f) {
      const FeatureView view = (*batch)->sparse->feature(f);
      for (size_t sample = 0; sample < (*batch)->size(); ++sample) {
        auto& ids = read.ids.emplace_back();
        for (const uint32_t occurrence : view.sample(sample)) ids.push_back(view.ids[occurrence]);
      }
    }
    batches.push_back(std::move(read));
  }
}

TEST_CASE("The first line of the first file tells whether files have a header") {
  DataConfig config = Example(false);
  config.csv.finds_header = true;
  config.missing_values = {"", "?"};
  const TemporaryFolder folder;
  const auto rows = [&](const std::vector<std::string>& texts, bool needs_labels = true) {
    std::vector<std::string> files;
    for (const std::string& text : texts) {
      files.push_back(folder.Write(absl::StrCat(files.size(), ".csv"), text));
    }
    RowLines lines = RowLines::Open(config, files, {.ignore_labels = !needs_labels}).value();
    size_t count = 0;
    for (;;) {
      const auto line = lines.Next();
      REQUIRE(line.ok());
      if (!line->has_value()) return count;
      ++count;
    }
  };
  const std::string header = "y,x,city,tags,note,z\n";
  const std::string row = "1,2,Oslo,a,,3\n";
  CHECK(rows({header + row, header + row}) == 2);
  CHECK(rows({row + row, row}) == 3);
  CHECK(rows({"", header + row, header + row}) == 2);
  CHECK(rows({"", row, header}) == 2);
  CHECK(rows({"z,x,more,city,tags,y\n" + row}) == 1);
  // One number, or a missing one, is enough for a row.
  CHECK(rows({"?,no,Oslo,a,,no\n"}) == 1);
  CHECK(rows({"no,no,Oslo,a,,3\n"}) == 1);
  CHECK(rows({"y,z,city,tags,note,x,\"\n"}) == 1);
  CHECK(rows({"x,city,tags,note,z\n2,Oslo,a,,3\n"}, false) == 1);
  CHECK(rows({"2,Oslo,a,,3\n2,Oslo,a,,3\n"}, false) == 2);
  // All needed names make a header, whatever is beside them.
  CHECK(rows({"7,x,city,tags,note,z,y\n0,1,2,Oslo,a,,3\n"}) == 1);
  // A row to predict is one unless it has half of the names.
  CHECK(rows({"no,Oslo,a,,no\n2,Oslo,a,,3\n"}, false) == 2);
  CHECK_THAT(std::string(RowLines::Open(config, {folder.Write("typo", "x,town,tags,z\n")},
                                        {.ignore_labels = true})
                             .status()
                             .message()),
             Catch::Contains("the header has no column 'city'"));
  // Texts are labels.
  for (ColumnConfig& column : config.columns) {
    if (column.kind == Kind::kDense) column.kind = Kind::kSkip;
  }
  config.columns[0].positive = {"yes"};
  CHECK(rows({"no,2,Oslo,a,,3\n"}) == 1);
  CHECK(rows({"y,2,Oslo,a,,3\n"}) == 1);
  CHECK(rows({"city,y,tags\n"}) == 0);
  config.columns[0].negative = {"no"};
  CHECK(rows({"no,2,Oslo,a,,3\n"}) == 1);
  CHECK(rows({"label,2,Oslo,a,,3\n"}) == 0);
}

TEST_CASE("Any order with any further columns gives the batches of the configured order") {
  Random random(GENERATE(range(0, 60)));
  DataConfig plain = Example(false);
  DataConfig named = Example(true);
  const char separator = ",;\t"[random.Below(3)];
  plain.csv.separator = named.csv.separator = separator;
  const Files files(random, plain);
  const size_t batch_size = 1 + random.Below(12);
  const auto shares = static_cast<uint32_t>(1 + random.Below(3));
  for (uint32_t share = 0; share < shares; ++share) {
    // From the beginning, and from a row in the middle.
    DataPosition position(
        {.batch_size = static_cast<uint32_t>(batch_size), .piece_batches = 1, .shares = shares});
    for (int reading = 0; reading < 2; ++reading) {
      const ReadOptions options{
          .keep_negatives = 0.7, .seed = 3, .share = share, .shares = shares, .read = &position};
      const std::vector<ReadBatch> batches = ReadAll(plain, files.in_order, batch_size, options);
      CHECK(ReadAll(named, files.by_name, batch_size, options) == batches);
      if (batches.empty()) break;
      position.Advance({.share = share, .files = 2, .next = batches[batches.size() / 2].next});
    }
  }
}

TEST_CASE("Statistics are those of the configured order") {
  Random random(7);
  DataConfig plain = Example(false);
  DataConfig named = Example(true);
  const Files files(random, plain);
  std::vector<FeatureConfig> features = Features();
  for (DataConfig* config : {&plain, &named}) {
    config->columns[1].fit = true;
    config->columns[5].fit = true;
    config->train = config == &plain ? files.in_order : files.by_name;
    REQUIRE(FitStatistics(*config, features) == absl::OkStatus());
  }
  for (const size_t column : {1, 5}) {
    CHECK(named.columns[column].mean == plain.columns[column].mean);
    CHECK(named.columns[column].stddev == plain.columns[column].stddev);
    CHECK(plain.columns[column].stddev != 1.0);
  }
}

TEST_CASE("Rows are observed, copied and predicted in the configured order") {
  Random random(8);
  const DataConfig named = Example(true);
  const Files files(random, named);
  const auto observe = [](const DataConfig& config, const std::string& file) {
    std::string lines;
    ReadAll(config, {file}, 4, {.on_row = [&](std::string_view line, bool in_batch) {
              CHECK(in_batch);
              lines.append(line).append("\n");
            }});
    return lines;
  };
  for (size_t file = 0; file < files.by_name.size(); ++file) {
    const std::string lines = observe(named, files.by_name[file]);
    CHECK(lines == observe(Example(false), files.in_order[file]));
    // A header of all columns is one in the configured order.
    const std::string copy = files.folder.Write("copy", CsvHeader(named) + "\n" + lines);
    CHECK(lines == observe(named, copy));
    CHECK(ReadAll(named, {copy}, 4, {}) == ReadAll(named, {files.by_name[file]}, 4, {}));
    CHECK(RowLines::Open(named, {copy})->columns() == nullptr);

    RowLines rows = RowLines::Open(named, {files.by_name[file]}).value();
    RowLines plain = RowLines::Open(Example(false), {files.in_order[file]}).value();
    const FileColumns columns = *rows.columns();
    RowText text = RowText::Create(named, {"z", "city", "y"}, &columns).value();
    RowText plain_text = RowText::Create(named, {"z", "city", "y"}).value();
    RowBatcher batcher = RowBatcher::Create(named, Features(), true).value();
    RowBatcher plain_batcher = RowBatcher::Create(named, Features(), true).value();
    while (const auto line = rows.Next().value()) {
      const auto plain_line = plain.Next().value();
      std::string copied;
      std::string plain_copied;
      text.AppendCells(line->text, copied);
      plain_text.AppendCells(plain_line->text, plain_copied);
      CHECK(copied == plain_copied);
      REQUIRE(batcher.AddLine(line->text, &columns).ok());
      REQUIRE(plain_batcher.AddLine(plain_line->text).ok());
    }
    CHECK(batcher.Build()->dense.values == plain_batcher.Build()->dense.values);
  }
}

// The status of opening a file with this header, without the folder.
std::string ErrorOf(const DataConfig& config, const std::string& header, bool needs_labels = true) {
  const TemporaryFolder folder;
  const std::string file = folder.Write("f", header + "\n");
  const Status status =
      OpenBatchReader(config, Features(), {file}, 2, {.ignore_labels = !needs_labels}).status();
  if (status.ok()) return "";
  std::string message(status.message());
  return message.starts_with(file) ? message.substr(file.size()) : "elsewhere: " + message;
}

TEST_CASE("A header without a column is an error with the nearest name") {
  const DataConfig config = Example(true);
  CHECK(ErrorOf(config, "y,x,city,tags,note,z").empty());
  CHECK(ErrorOf(config, "z,tags,city,x,y").empty());  // `note` is unused.
  CHECK(ErrorOf(config, "y,x,Cty,tags,z") ==
        ":1: the header has no column 'city'; the nearest column is 'Cty'; rename it, or set "
        "data.columns.2.header_name, or add the column with empty cells");
  CHECK(ErrorOf(config, "a,b,cty,tag,note,d").starts_with(":1: the header has no column 'y'"));
  CHECK(ErrorOf(config, "tags,city,y,z") ==
        ":1: the header has no column 'x'; the nearest column is 'y'; rename it, or set "
        "data.columns.1.header_name, or add the column with empty cells");
  CHECK(ErrorOf(config, "y,city") ==
        ":1: the header has no column 'x'; the nearest column is 'y'; rename it, or set "
        "data.columns.1.header_name, or add the column with empty cells");
  CHECK(ErrorOf(config, "y,x,z,city,\x01labels") ==
        ":1: the header has no column 'tags'; use one of \\x01labels, city, x, y, z; rename it, or "
        "set data.columns.3.header_name, or add the column with empty cells");
  CHECK(ErrorOf(config, "y,\"x").starts_with(":1: cell 2: the quote is not closed"));
  CHECK(ErrorOf(config, std::string(kMaxLineBytes + 1, 'x')).starts_with(":1: the line is longer"));
}

TEST_CASE("Names that differ in case and punctuation are found, whatever their order") {
  DataConfig config = Example(GENERATE(true, false));
  config.csv.finds_header = true;
  config.columns[2].header_name = "home city";
  const TemporaryFolder folder;
  const std::string file =
      folder.Write("f", "Z,Home_City,Tags, X ,Y\n3,Oslo,a|b,2,1\n5,Rome,c,4,0\n");
  for (const bool ignores_labels : {true, false}) {
    const auto batches = ReadAll(config, {file}, 2, {.ignore_labels = ignores_labels});
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].dense == std::vector<float>{2, 3, 4, 5});
  }
  // An exact name is preferred; names that could both be meant are none.
  const auto columns = FindColumns(config, "City,home city,HOME CITY,tags,x,z,y", true).value();
  CHECK(columns->cells[2] == 1);
  CHECK(FindColumns(config, "Home City,HOME CITY,tags,x,z,y", true).status().message() ==
        "the header has no column 'home city'; the nearest column is 'HOME CITY'; rename it, or "
        "set data.columns.2.header_name, or add the column with empty cells");
}

TEST_CASE("The first line of rows to predict is never the wrong one") {
  using Verdict = std::pair<std::string, int>;  // Rows of a file of two lines; -1: an error.
  const TemporaryFolder folder;
  const auto rows_of = [&](const DataConfig& config, const std::string& first) {
    const std::string file = folder.Write("f", first + "\n1,Oslo,a,,3\n");
    StatusOr<RowLines> lines = RowLines::Open(config, {file}, {.ignore_labels = true});
    if (!lines.ok()) return -1;
    int rows = 0;
    while (lines->Next().value()) ++rows;
    return rows;
  };
  DataConfig config = Example(GENERATE(true, false));
  config.csv.finds_header = !config.csv.header;
  CAPTURE(config.csv.header);
  for (const auto& [line, rows] : std::vector<Verdict>{{"x,city,tags,note,z", 1},
                                                       {"z,note,tags,city,x", 1},
                                                       {"\n  \nz,note,tags,city,x", 1},
                                                       {"Z,Note,TAGS,City,X", 1},
                                                       {"x,city,tags,note,zz", -1},
                                                       {"x,cty,tag,note,z", -1},
                                                       {"2,Oslo,a,note,3", 2},
                                                       {"2,city,a,,3", 2},
                                                       {"2.5,Oslo,a|b,,-1e3", 2}}) {
    CAPTURE(line);
    CHECK(rows_of(config, line) == rows);
  }
  // A header of other names: by position if a header is sure, otherwise an error.
  CHECK(rows_of(config, "a,b,c,d,e") == (config.csv.header ? 1 : -1));
  // Only ids.
  for (ColumnConfig& column : config.columns) {
    if (column.kind == Kind::kDense) column.kind = Kind::kId;
  }
  for (const auto& [line, rows] :
       std::vector<Verdict>{{"X,CITY,TAGS,NOTE,Z", 1},
                            {"x,citty,tagss,note,z", -1},
                            {"u1,Oslo,t2,,q", config.csv.header ? -1 : 2},
                            {"u1,o2,t2,n3,z3", 2},
                            {"7,Oslo,t,,q", 2}}) {
    CAPTURE(line);
    CHECK(rows_of(config, line) == rows);
  }
}

TEST_CASE("Files of rows to predict may lack labels") {
  const DataConfig config = Example(true);
  CHECK(ErrorOf(config, "tags,city,z,x", /*needs_labels=*/false).empty());
  CHECK(ErrorOf(config, "tags,city,z,x,y", /*needs_labels=*/false).empty());
  CHECK(ErrorOf(config, "tags,city,z,x") ==
        ":1: the header has no column 'y'; the nearest column is 'x'; rename it, or set "
        "data.columns.0.header_name");
  const TemporaryFolder folder;
  const std::string file = folder.Write("f", "tags,more,city,z,x\na|b,9,Oslo,1,2\n");
  const auto batches = ReadAll(config, {file}, 2, {.ignore_labels = true});
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].dense == std::vector<float>{2, 1});
  CHECK(batches[0].labels == std::vector<float>{0});
  CHECK(batches[0].ids[1].size() == 2);
  const FileColumns columns = *RowLines::Open(config, {file}, {.ignore_labels = true})->columns();
  RowText text = RowText::Create(config, {"note", "y", "city"}, &columns).value();
  std::string copied;
  text.AppendCells("a|b,9,Oslo,1,2", copied);
  CHECK(copied == ",,Oslo,");
}

TEST_CASE("A header with none of the names leaves columns in the configured order") {
  const DataConfig config = Example(true);
  const TemporaryFolder folder;
  for (const char* header : {"a,b,c,d,e,f", "a", ""}) {
    CAPTURE(header);
    const std::string file =
        folder.Write("f", absl::StrCat(header, "\n1,2,Oslo,a,note,3\n0,4,Oslo,a,note,5\n"));
    const auto batches = ReadAll(config, {file}, 2, {});
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].dense == std::vector<float>{2, 3, 4, 5});
  }
}

TEST_CASE("A later file without the names of the first one is an error") {
  const TemporaryFolder folder;
  const DataConfig config = Example(true);
  const std::string row = "1,2,3,4,5\n";
  const std::string named = folder.Write("named", "y,x,city,tags,z\n" + row);
  const std::string unnamed = folder.Write("unnamed", row + row);
  const auto read = [&](const std::vector<std::string>& files) {
    Status status = absl::OkStatus();
    auto reader = OpenBatchReader(config, Features(), files, 2, {.ignore_labels = true});
    while (status.ok()) {
      const auto batch = (*reader)->Next();
      status = batch.status();
      if (status.ok() && !*batch) break;
    }
    return status;
  };
  CHECK(read({named, named}).ok());
  CHECK_THAT(std::string(read({named, unnamed}).message()),
             Catch::StartsWith(unnamed + ":1: the header has none of the names"));
}

TEST_CASE("A name in the header twice is an error if the column is read") {
  const DataConfig config = Example(true);
  CHECK(ErrorOf(config, "y,x,city,tags,z,x") == ":1: the header has column 'x' twice; rename one");
  CHECK(ErrorOf(config, "y,x,city,tags,z,note,more,note,more").empty());
}

TEST_CASE("strict refuses other columns in a header") {
  DataConfig config = Example(true);
  config.csv.strict = true;
  CHECK(ErrorOf(config, "note,y,x,city,tags,z").empty());
  CHECK(ErrorOf(config, "y,x,city,tags,z,more") ==
        ":1: data.columns has no column 'more' of the header; add it, with kind: skip if it is "
        "unused, or set data.csv.strict: false");
  CHECK(ErrorOf(config, "a,b").starts_with(":1: the header has no column 'y'"));
}

TEST_CASE("header_name is the name in the files") {
  DataConfig config = Example(true);
  config.columns[2].header_name = "City, of birth";
  CHECK(ErrorOf(config, "\"City, of birth\",z,tags,y,x").empty());
  CHECK(ErrorOf(config, "city,z,tags,y,x") ==
        ":1: the header has no column 'City, of birth'; use one of city, tags, x, y, z; rename it, "
        "or set data.columns.2.header_name, or add the column with empty cells");
  CHECK(CsvHeader(config) == "y,x,\"City, of birth\",tags,note,z");
}

TEST_CASE("A file whose columns change places during a run has changed") {
  const DataConfig config = Example(true);
  const TemporaryFolder folder;
  const std::string file = folder.Write("f", "y,x,city,tags,z\n1,2,c,t,3\n");
  FileIdentities failing(DataConfig::OnChange::kFail);
  FileIdentities warning(DataConfig::OnChange::kWarn);
  ReadAll(config, {file}, 2, {.identities = &failing});
  const auto before = ReadAll(config, {file}, 2, {.identities = &warning});
  folder.Write("f", "z,x,city,tags,y\n3,2,c,t,1\n");
  CHECK(absl::IsFailedPrecondition(
      OpenBatchReader(config, Features(), {file}, 2, {.identities = &failing}).status()));
  CHECK(ReadAll(config, {file}, 2, {.identities = &warning}) == before);
}

TEST_CASE("A row must have the cells of its file's header") {
  DataConfig config = Example(true);
  const TemporaryFolder folder;
  const std::vector<std::string> files = {
      folder.Write("a", "z,tags,city,x,y\n1,t,c,2,0\n"),
      folder.Write("b", "more,z,tags,city,x,y\n1,1,t,c,2,0\n1,t,c,2,0\n")};
  auto reader = OpenBatchReader(config, Features(), files, 9).value();
  CHECK(reader->Next().status() ==
        absl::InvalidArgumentError(absl::StrCat(
            files[1],
            ":3: 5 cells, but the header has 6 columns; correct the row, or quote cells "
            "that contain separators")));
}

}  // namespace
}  // namespace simurgh
