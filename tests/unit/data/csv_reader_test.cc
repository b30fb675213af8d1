#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "data/processing/feature_ids.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Kind = ColumnConfig::Kind;
using Ids = std::vector<uint64_t>;

// y,x,city,tags,note: label, dense, id, ids separated by |, skipped.
DataConfig Example() {
  DataConfig config;
  config.missing_values = {"", "?"};
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense), Column("city", Kind::kId),
                    Column("tags", Kind::kId), Column("note", Kind::kSkip)};
  config.columns[3].separator = '|';
  return config;
}

std::vector<FeatureConfig> Features() { return {Feature("city"), Feature("tags")}; }

StatusOr<std::vector<ReadSample>> ReadText(const DataConfig& config, const std::string& text,
                                           const std::vector<FeatureConfig>& features) {
  const TemporaryFolder folder;
  return ReadSamples(config, features, {folder.Write("a.csv", text)});
}

TEST_CASE("Cells become label, dense values and hashed ids") {
  const auto samples = ReadText(Example(),
                                "1, 2.5 ,Oslo,a|b|a,n\n"
                                "0,-1e3,?, , \"x,y\"\r\n"
                                "\n"
                                "1.0,?,\"New, York\",\"say \"\"hi\"\"\" ,\n",
                                Features());
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 3);
  const auto& s = *samples;
  CHECK(s[0].label == 1.0F);
  CHECK(s[0].dense == std::vector<float>{2.5F});
  CHECK(s[0].ids[0] == Ids{HashBytes("Oslo")});
  CHECK(s[0].ids[1] == Ids{HashBytes("a"), HashBytes("b"), HashBytes("a")});
  CHECK(s[1].label == 0.0F);
  CHECK(s[1].dense == std::vector<float>{-1000.0F});
  CHECK(s[1].ids[0].empty());
  CHECK(s[1].ids[1].empty());
  CHECK(s[2].label == 1.0F);
  CHECK(s[2].dense == std::vector<float>{0.0F});
  CHECK(s[2].ids[0] == Ids{HashBytes("New, York")});
  CHECK(s[2].ids[1] == Ids{HashBytes("say \"hi\"")});
}

TEST_CASE("String ids are XXH3-64 of seed 0, so that checkpoints outlive programs") {
  const auto samples = ReadText(Example(), "1,1,,x,\n", Features());
  REQUIRE(samples.ok());
  // Source: XXH3_64bits("") of the reference implementation.
  CHECK(HashBytes("") == 0x2d06800538d394c2ULL);
  CHECK((*samples)[0].ids[1] == Ids{HashBytes("x")});
}

TEST_CASE("Parts of a cell are trimmed, and missing parts are no ids") {
  const auto samples = ReadText(Example(), "1,1,c, a | ?||b ,\n", Features());
  REQUIRE(samples.ok());
  CHECK((*samples)[0].ids[1] == Ids{HashBytes("a"), HashBytes("b")});
}

TEST_CASE("A quoted cell of blanks is missing, like one without quotes") {
  const auto samples = ReadText(Example(), "1,\" \",\"  \",\"\t\",\n1, ,  ,\t,\n", Features());
  REQUIRE(samples.ok());
  for (const auto& sample : *samples) {
    CHECK(sample.dense[0] == 0.0F);
    CHECK(sample.ids[0].empty());
    CHECK(sample.ids[1].empty());
  }
}

TEST_CASE("NaN is a missing number, and a text like others in a column of ids") {
  DataConfig config = Example();
  config.columns[1].missing = 7;
  const auto samples = ReadText(config, "1,nan,nan,,\n1,NaN,NaN,,\n1,,,,\n", Features());
  REQUIRE(samples.ok());
  for (const auto& sample : *samples) CHECK(sample.dense == (*samples)[2].dense);
  CHECK((*samples)[0].ids[0] == Ids{HashBytes("nan")});
  CHECK((*samples)[1].ids[0] == Ids{HashBytes("NaN")});
}

TEST_CASE("A missing value is put in place before transform and scaling") {
  DataConfig config = Example();
  ColumnConfig& x = config.columns[1];
  x.missing = -3.0;
  x.transform = ColumnConfig::Transform::kLog1p;
  x.mean = 1.0;
  x.stddev = 2.0;
  const auto samples = ReadText(config, "1,,c,t,\n1,7,c,t,\n1,0,c,t,\n", Features());
  REQUIRE(samples.ok());
  CHECK((*samples)[0].dense[0] == Approx((-std::log(4.0) - 1.0) / 2.0));
  CHECK((*samples)[1].dense[0] == Approx((std::log(8.0) - 1.0) / 2.0));
  CHECK((*samples)[2].dense[0] == Approx(-0.5));
}

TEST_CASE("Several label columns are several labels of a sample, in their order") {
  DataConfig config = Example();
  config.columns[4] = Column("bought", Kind::kLabel);
  config.columns[4].positive = {"yes"};
  CHECK(LabelColumns(config) == std::vector<std::string>{"y", "bought"});
  const TemporaryFolder folder;
  const std::string file =
      folder.Write("a.csv", "1,2,Oslo,a,no\n0,2,Oslo,a,yes\n0,2,Oslo,a,no\n1,2,Oslo,a,yes\n");
  const auto reader = OpenBatchReader(config, Features(), {file}, 3);
  REQUIRE(reader.ok());
  const auto first = (*reader)->Next();
  REQUIRE((first.ok() && first->has_value()));
  CHECK((*first)->dense.tasks == 2);
  CHECK((*first)->dense.batch_size == 3);
  CHECK((*first)->dense.labels == std::vector<float>{1, 0, 0, 1, 0, 0});
  const auto second = (*reader)->Next();
  REQUIRE((second.ok() && second->has_value()));
  CHECK((*second)->dense.labels == std::vector<float>{1, 1});
}

TEST_CASE("a label of numbers is the number, a count at least 0") {
  using Values = ColumnConfig::LabelValues;
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense)};
  config.columns[0].label_values = Values::kNumbers;
  const TemporaryFolder folder;
  const auto labels = [&](const std::string& cell) -> StatusOr<std::vector<float>> {
    const std::string path = folder.Write("a.csv", cell + ",1\n");
    SIMURGH_ASSIGN_OR_RETURN(const auto reader, OpenBatchReader(config, {}, {path}, 4));
    SIMURGH_ASSIGN_OR_RETURN(const auto batch, reader->Next());
    return batch->dense.labels;
  };
  CHECK(labels("-1.5").value() == std::vector<float>{-1.5F});
  CHECK(labels("1").value() == std::vector<float>{1});
  for (const char* bad : {"", "x", "nan", "1e60"}) {
    CHECK_THAT(std::string(labels(bad).status().message()),
               Contains(absl::StrCat("a.csv:1: column 'y': '", bad, "' is not a finite number")));
  }
  config.columns[0].label_values = Values::kCounts;
  CHECK(labels("2.5").value() == std::vector<float>{2.5F});
  CHECK_THAT(std::string(labels("-1").status().message()),
             Contains("'-1' is not a number of at least 0, as the loss poisson needs; correct it"));
}

TEST_CASE("weights of samples follow the labels, and their cells are not missing") {
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense),
                    Column("city", Kind::kSkip), Column("w", Kind::kWeight)};
  CHECK(HasSampleWeights(config));
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.csv", "1,1,a,0.5\n0,1,a,3\n1,1,a,0\n");
  const auto reader = OpenBatchReader(config, {}, {path}, 2);
  REQUIRE(reader.ok());
  const auto first = (*reader)->Next();
  CHECK((*first)->dense.labels == std::vector<float>{1, 0, 0.5F, 3});
  CHECK((*first)->dense.weights().size() == 2);
  const auto second = (*reader)->Next();
  CHECK((*second)->dense.labels == std::vector<float>{1, 0});

  for (const char* bad : {"", "-1", "inf", "x"}) {
    const std::string row = folder.Write("b.csv", absl::StrCat("1,1,a,", bad, "\n1,1,a,2\n"));
    const auto refused = OpenBatchReader(config, {}, {row}, 2);
    CHECK_THAT(std::string((*refused)->Next().status().message()),
               Contains(absl::StrCat("b.csv:1: column 'w': '", bad, "' is not a weight")));
    // The bad row leaves nothing behind.
    CHECK((*(*refused)->Next())->dense.labels == std::vector<float>{1, 2});
  }

  // Rows to predict have neither label nor weight, or both, whatever they are.
  const std::string rows = folder.Write("c.csv", "1,a\nx,2,a,y\n");
  const auto predicted = OpenBatchReader(config, {}, {rows}, 2, {.ignore_labels = true});
  CHECK((*(*predicted)->Next())->dense.labels == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("Texts that mean a positive label") {
  DataConfig config = Example();
  config.columns[0].positive = {"yes", "si"};
  const auto samples = ReadText(config, "si,1,c,t,\nno,1,c,t,\n yes ,1,c,t,\n", Features());
  REQUIRE(samples.ok());
  CHECK((*samples)[0].label == 1.0F);
  CHECK((*samples)[1].label == 0.0F);
  CHECK((*samples)[2].label == 1.0F);
}

TEST_CASE("Several features read one column, a dense one too, hash stacks applied") {
  std::vector<FeatureConfig> features = {Feature("x"), Feature("folded"), Feature("city")};
  features[1].column = "tags";
  features[1].hash_stack = {.rounds = 2, .buckets = 10};
  features.push_back(Feature("tags"));
  features.push_back(Feature("again"));
  features[4].column = "x";
  const auto samples = ReadText(Example(), "1, 2.50,c,a|b,\n1,?,c,,\n", features);
  REQUIRE(samples.ok());
  const auto& ids = (*samples)[0].ids;
  CHECK(ids[0] == Ids{HashBytes("2.50")});
  CHECK(ids[4] == ids[0]);
  Ids rows(4);
  HashStackRows(features[1].hash_stack, HashBytes("a"), std::span(rows).first(2));
  HashStackRows(features[1].hash_stack, HashBytes("b"), std::span(rows).last(2));
  CHECK(ids[1] == rows);
  CHECK(ids[3] == Ids{HashBytes("a"), HashBytes("b")});
  CHECK((*samples)[1].ids[0].empty());
}

TEST_CASE("A tab as separator leaves empty cells where they are") {
  DataConfig config = Example();
  config.csv.separator = '\t';
  const auto samples = ReadText(config, "1\t2\t\t x y \t\n1\t2\t\"a\tb\"\t\t\n", Features());
  REQUIRE(samples.ok());
  CHECK((*samples)[0].ids[0].empty());
  CHECK((*samples)[0].ids[1] == Ids{HashBytes("x y")});
  CHECK((*samples)[1].ids[0] == Ids{HashBytes("a\tb")});
}

TEST_CASE("Batches are full over file boundaries, headers skipped, whatever the packing") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.csv.header = true;
  const auto rows = [](int first, int count) {
    std::string text = "y,x,city,tags,note\n";
    for (int n = first; n < first + count; ++n) text += "0," + std::to_string(n) + ",c,t,\n";
    return text;
  };
  const std::vector<std::string> files = {
      folder.Write("a", rows(0, 5)), folder.Write("b", Gzip(rows(5, 0))),
      folder.Write("c", Zstd(rows(5, 100))), folder.Write("d", ""),
      folder.Write("e", Gzip(rows(105, 7)))};
  const size_t batch_size = GENERATE(1, 2, 7, 56, 112, 500);
  const auto samples = ReadSamples(config, Features(), files, batch_size);
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 112);
  for (size_t n = 0; n < samples->size(); ++n) CHECK((*samples)[n].dense[0] == float(n));
}

TEST_CASE("A file may begin with a byte order mark, with a header or without, packed or not") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.csv.header = GENERATE(false, true);
  config.csv.separator = GENERATE(',', '\t');
  std::string text = "\xef\xbb\xbf";
  if (config.csv.header) text += "y,x,city,tags,note\n";
  text += "1,2,c,t,\n0,3,c,t,\n";
  std::ranges::replace(text, ',', config.csv.separator);
  const auto samples =
      ReadSamples(config, Features(), {folder.Write("a", text), folder.Write("b", Gzip(text))});
  REQUIRE(samples.status() == absl::OkStatus());
  REQUIRE(samples->size() == 4);
  for (size_t n = 0; n < 4; ++n) {
    CHECK((*samples)[n].label == (n % 2 == 0 ? 1.0F : 0.0F));
    CHECK((*samples)[n].dense[0] == (n % 2 == 0 ? 2.0F : 3.0F));
  }
}

TEST_CASE("A quoted cell may have line ends; a quote that is not closed ends with its line") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  const auto read = [&](const std::string& text) {
    std::vector<std::string> rows;
    const ReadOptions options{.on_row = [&rows](std::string_view line, bool in_batch) {
      rows.push_back((in_batch ? "+" : "-") + std::string(line));
    }};
    const auto reader =
        OpenBatchReader(config, Features(), {folder.Write("rows", text)}, 100, options);
    REQUIRE(reader.ok());
    REQUIRE((*reader)->Next().ok());
    return rows;
  };
  using Rows = std::vector<std::string>;
  CHECK(read("1,1,\"a\nb\",t,\n0,2,\"\r\n\"\"\n\",\"t\n\n\",\n") ==
        Rows{"+1,1,\"a\nb\",t,", "+0,2,\"\r\n\"\"\n\",\"t\n\n\","});
  CHECK(read("1,1,\"a,t,\n0,2,b,t,\n1,3,\"c\",t,\n") ==
        Rows{"-1,1,\"a,t,", "+0,2,b,t,", "+1,3,\"c\",t,"});
  CHECK(read("1,1,\"a,t,\n0,2,b,t,\n") == Rows{"-1,1,\"a,t,", "+0,2,b,t,"});
  CHECK(read("1,1,5\" pipe,t,\n0,2,6\" pipe,t,\n") == Rows{"+1,1,5\" pipe,t,", "+0,2,6\" pipe,t,"});
  CHECK(read("1,1,5\" pipe,\"t\nu\",\n0,2,b,t,\n") == Rows{"+1,1,5\" pipe,\"t\nu\",", "+0,2,b,t,"});
  CHECK(read("1,1, \"a\"\"\n\"\"b\" ,t,\n0,2,b,t,\n") ==
        Rows{"+1,1, \"a\"\"\n\"\"b\" ,t,", "+0,2,b,t,"});
  const std::string file = folder.Write("rows", "1,1,\"a\n\nb\",t,\n0,x,c,t,\n");
  config.on_bad_row = DataConfig::OnBadRow::kFail;
  CHECK_THAT(std::string(ReadSamples(config, Features(), {file}).status().message()),
             Catch::StartsWith(file + ":4: column 'x': 'x' is not"));
}

TEST_CASE("A header that is read as a row is an error that names data.csv.header") {
  const auto problem = [](const std::string& text) {
    return std::string(ReadText(Example(), text, Features()).status().message());
  };
  CHECK_THAT(problem("y,x,city,tags,note\n"),
             Catch::EndsWith("; if the line is a header, set data.csv.header: true"));
  CHECK_THAT(problem("1,1,c,t,\ny,x,city,tags,note\n"),
             Catch::EndsWith("choose the loss squared_error"));
}

TEST_CASE("A bad row is named with file, line, column, value and remedy") {
  struct Bad {
    std::string row;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"1,3x,c,t,", "a.csv:2: column 'x': '3x' is not a finite number; correct it, or add it to"},
      {"1,inf,c,t,", "column 'x': 'inf' is not a finite number"},
      {"1,1e999,c,t,", "column 'x': '1e999' is not a finite number"},
      {"1,1e300,c,t,", "column 'x': '1e300' is too large after (x - mean) / stddev"},
      {"2,1,c,t,", "column 'y': '2' is not a label, 0 or 1"},
      {",1,c,t,", "column 'y': '' is not a label"},
      {"1,1,c,t", "a.csv:2: 4 cells, but the configuration names 5 columns"},
      {"1,1,c,t,,", "6 cells"},
      {"1", "1 cell, but"},
      {"1,1,\"c,t,", "a.csv:2: cell 3: the quote is not closed;"},
      {"1,1,\"c\"d,t,", "cell 3: text after the closing quote"},
      {"1,\x01\xff" + std::string(100, 'z') + ",c,t,", "'\\x01\\xffzzz"},
  }));
  const auto samples = ReadText(Example(), "1,1,c,t,\n" + bad.row + "\n", Features());
  CHECK(samples.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(samples.status().message()), Catch::Contains(bad.message));
  CHECK(samples.status().message().size() < 400);
}

TEST_CASE("Labels are texts of `positive` and `negative`; missing and other texts are bad rows") {
  DataConfig config = Example();
  ColumnConfig& y = config.columns[0];
  y.positive = {"yes", "1"};
  const auto label_of = [&config](const std::string& cell) -> StatusOr<float> {
    SIMURGH_ASSIGN_OR_RETURN(const auto samples, ReadText(config, cell + ",1,c,t,\n", Features()));
    return samples.front().label;
  };
  const auto error_of = [&label_of](const std::string& cell) {
    const StatusOr<float> label = label_of(cell);
    CHECK(absl::IsInvalidArgument(label.status()));
    const std::string message(label.status().message());
    return message.substr(message.find(":1: ") + 4);
  };
  CHECK(*label_of("yes") == 1.0F);
  CHECK(*label_of("no") == 0.0F);
  const std::string missing =
      "is a missing label; correct it, or list the text as `negative`; if the line is a header, "
      "set data.csv.header: true";
  CHECK(error_of("") == "column 'y': '' " + missing);
  CHECK(error_of(" ? ") == "column 'y': '?' " + missing);

  y.negative = {"no", "?"};
  CHECK(*label_of("1") == 1.0F);
  CHECK(*label_of("no") == 0.0F);
  CHECK(*label_of("?") == 0.0F);
  CHECK(error_of("") == "column 'y': '' " + missing);
  CHECK(error_of("no.") ==
        "column 'y': 'no.' is neither in `positive` nor in `negative`; correct it, or list it in "
        "one; if the line is a header, set data.csv.header: true");
}

TEST_CASE(
    "A `missing` that is too large once it is scaled is named with the row that lacks a value") {
  DataConfig config = Example();
  config.columns[1].missing = 3e38F;
  config.columns[1].stddev = 0.001;
  const auto samples = ReadText(config, "1,1,c,t,\n1,,c,t,\n", Features());
  CHECK(samples.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(samples.status().message()),
             Catch::EndsWith("a.csv:2: column 'x': `missing`, 3e+38, is too large after (x - mean) "
                             "/ stddev; correct it, or `mean` and `stddev`"));
}

TEST_CASE("A dense value far above all usual ones is named in the log, with its line") {
  DataConfig config = Example();
  config.columns[1].stddev = 2;
  std::string text = "1,1e6,c,t,\n0,-1e20,c,t,\n1,2000002,c,t,\n";
  {
    const testing::LogLines lines;
    REQUIRE(ReadText(config, text, Features()).ok());
    CHECK_THAT(lines.text(),
               Catch::Contains("a.csv:2: column 'x': '-1e20' is -5e+19 after scaling; numbers "
                               "above 1e+06 spoil gradients and batch_norm; "
                               "correct it, or set `fit` or `transform: log1p`\n") &&
                   Catch::Contains("a.csv:3: column 'x': '2000002' is 1e+06") &&
                   !Catch::Contains("a.csv:1:"));
  }
  for (int row = 0; row < 100; ++row) text += "1,1e9,c,t,\n";
  const testing::LogLines lines;
  REQUIRE(ReadText(config, text, Features()).ok());
  const std::string log = lines.text();
  CHECK(std::ranges::count(log, '\n') == 11);
  CHECK_THAT(log, Catch::EndsWith("further outliers are not logged\n"));
}

TEST_CASE("The rows before a bad one are kept, and reading continues after it") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv", "1,1,c,t,\n1,1,c2,t2,,\n1,3,c,t,\n");
  auto reader = OpenBatchReader(Example(), Features(), {file}, 10);
  REQUIRE(reader.ok());
  CHECK_FALSE((*reader)->Next().ok());
  const auto batch = (*reader)->Next();
  REQUIRE(batch.ok());
  REQUIRE(batch->has_value());
  CHECK((*batch)->size() == 2);
  const auto occurrences = (*batch)->sparse->feature(0).occurrences;
  REQUIRE(occurrences.size() == 2);
  CHECK(occurrences[0] == occurrences[1]);
  CHECK_FALSE((*reader)->Next()->has_value());
}

TEST_CASE("A torn file is named with the line it is torn at") {
  const TemporaryFolder folder;
  std::string text;
  for (int n = 0; n < 10'000; ++n) text += "1," + std::to_string(n * 7919) + ",c,t,\n";
  const std::string packed = Zstd(text);
  const std::string file = folder.Write("torn.zst", packed.substr(0, packed.size() - 10));
  const auto samples = ReadSamples(Example(), Features(), {file}, 100);
  CHECK(samples.status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(samples.status().message()), Catch::Contains(file + ":"));
}

TEST_CASE("A file in another compression is named, also when bad rows are skipped") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.csv.xz", std::string("\xfd\x37zXZ\0\0\4\n\n", 10));
  DataConfig config = Example();
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  CHECK(ReadSamples(config, Features(), {file}).status() ==
        absl::FailedPreconditionError(
            file + ":1: is compressed by xz; decompress it first, or use gzip or zstd"));
}

TEST_CASE("A missing file is NOT_FOUND, at once when it is the first") {
  const TemporaryFolder folder;
  const std::string there = folder.Write("a.csv", "1,1,c,t,\n");
  const std::string missing = folder.Path("b.csv");
  CHECK(OpenBatchReader(Example(), Features(), {missing}, 1).status().code() ==
        absl::StatusCode::kNotFound);
  const auto samples = ReadSamples(Example(), Features(), {there, missing}, 2);
  CHECK(samples.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(samples.status().message()), Catch::Contains(missing));
}

TEST_CASE("No files are no batches") {
  const auto samples = ReadSamples(Example(), Features(), {});
  REQUIRE(samples.ok());
  CHECK(samples->empty());
}

TEST_CASE("Batches estimate the number of all rows, and know it at the end") {
  const TemporaryFolder folder;
  Random random(7);
  std::vector<std::string> texts(3);
  constexpr size_t kRows = 600'000;
  for (size_t row = 0; row < kRows; ++row) {
    texts[row * 3 / kRows] += std::to_string(random.Below(2)) + ",1,city" +
                              std::to_string(random.Below(1'000'000)) + ",a|b,\n";
  }
  const std::vector<std::string> files{folder.Write("a.csv", texts[0]),
                                       folder.Write("b.csv.zst", Zstd(texts[1])),
                                       folder.Write("c.csv.gz", Gzip(texts[2]))};
  // Rows of a compressed file are fewer bytes, so estimates are for files of one kind. A decoder
  // reads some of the file ahead.
  for (const size_t first : {0, 1, 2}) {
    const std::vector<std::string> same(4, files[first]);
    const auto reader = OpenBatchReader(Example(), Features(), same, 128);
    REQUIRE(reader.ok());
    uint64_t rows = 0;
    for (uint64_t read = 0;;) {
      const auto batch = (*reader)->Next();
      REQUIRE(batch.ok());
      if (!batch->has_value()) break;
      read += (*batch)->size();
      rows = (*batch)->progress.rows;
      if (read < 100'000 || std::abs(static_cast<double>(rows) - 800'000) < 80'000) continue;
      INFO("file " << first << ", row " << read);
      FAIL_CHECK(rows << " is not near the number of rows");
    }
    CHECK(rows == 800'000);
  }
}

TEST_CASE("Dense columns are in the order of the file") {
  DataConfig config = Example();
  config.columns[4].kind = Kind::kDense;
  CHECK(DenseColumns(config) == std::vector<std::string>{"x", "note"});
}

}  // namespace
}  // namespace simurgh
