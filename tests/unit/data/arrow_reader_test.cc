// Parquet and Arrow files that pyarrow writes, read as the same rows of a CSV file.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "data/batch/data_position.h"
#include "data/processing/feature_ids.h"
#include "data/reading/batch_reader.h"
#include "data/reading/byte_stream.h"
#include "data/reading/file_identity.h"
#include "data/reading/file_writer.h"
#include "data/reading/remote_file.h"
#include "tests/support/python.h"
#include "tests/support/s3_server.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/fake_stream.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Format = DataConfig::Format;
using Kind = ColumnConfig::Kind;

// The files of arrow_files.py; the module is that of the build.
const std::string& Folder() {
  static const TemporaryFolder folder;
  static const bool is_ready = [] {
    const char* const bin = std::getenv("SIMURGH_BIN_DIR");
    const std::string module =
        std::string(bin == nullptr ? "build/release/bin" : bin) + "/libsimurgh_arrow.so";
    if (!std::filesystem::exists(module)) {
      SIMURGH_SKIP("libsimurgh_arrow.so is not built; scripts/bootstrap.sh --arrow gets Arrow C++");
    }
    ::setenv("SIMURGH_ARROW_MODULE", module.c_str(), 1);
    const std::string command =
        testing::Python("pyarrow") + " tests/unit/data/arrow_files.py " + folder.path();
    REQUIRE(std::system(command.c_str()) == 0);
    return true;
  }();
  REQUIRE(is_ready);
  return folder.path();
}

std::string Path(const std::string& name) { return Folder() + "/" + name; }

const std::vector<std::string> kIds{"i64",   "u8",    "flag",     "price",    "city",
                                    "large", "bytes", "fixed",    "category", "day",
                                    "tags",  "items", "weighted", "map"};

DataConfig Example(Format format) {
  DataConfig config;
  config.format = format;
  config.csv.header = format == Format::kCsv;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense),
                    Column("count", Kind::kDense)};
  config.columns[1].missing = -1;
  for (const std::string& id : kIds) {
    config.columns.push_back(Column(id, Kind::kId));
    const bool is_list = id == "tags" || id == "items" || id == "weighted" || id == "map";
    if (is_list && format == Format::kCsv) config.columns.back().separator = '|';
  }
  return config;
}

std::vector<FeatureConfig> Features(Format format) {
  std::vector<FeatureConfig> features;
  for (const std::string& id : kIds) {
    features.push_back(Feature(id));
    if (format == Format::kCsv && (id == "weighted" || id == "map")) {
      features.back().weight_separator = ':';
    }
  }
  features.push_back(Feature("city"));  // Two features of one column.
  features.back().name = "town";
  return features;
}

std::vector<Batch> AllOf(BatchReader& reader) {
  std::vector<Batch> batches;
  for (;;) {
    auto batch = reader.Next();
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    if (!batch->has_value()) return batches;
    REQUIRE((*batch)->sparse->Validate().ok());
    batches.push_back(**std::move(batch));
  }
}

std::vector<Batch> ReadAll(Format format, const std::vector<std::string>& files, size_t size = 64,
                           const ReadOptions& options = {}) {
  auto reader = OpenBatchReader(Example(format), Features(format), files, size, options);
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  return AllOf(**reader);
}

void CheckSame(const std::vector<Batch>& some, const std::vector<Batch>& others, size_t from = 0) {
  REQUIRE(some.size() + from == others.size());
  for (size_t i = 0; i < some.size(); ++i) {
    const Batch& one = some[i];
    const Batch& other = others[i + from];
    CAPTURE(i);
    CHECK(one.dense.labels == other.dense.labels);
    CHECK(one.dense.values == other.dense.values);
    CHECK(one.sparse->ids == other.sparse->ids);
    CHECK(one.sparse->occurrences == other.sparse->occurrences);
    CHECK(one.sparse->offsets == other.sparse->offsets);
    CHECK(one.sparse->weights == other.sparse->weights);
  }
}

TEST_CASE("Files of both formats and every layout have the rows of the CSV file") {
  const std::vector<Batch> expected = ReadAll(Format::kCsv, {Path("rows.csv")});
  REQUIRE(expected.size() == 16);
  REQUIRE_FALSE(expected[0].sparse->weights.empty());
  for (const char* name : {"plain.parquet", "default.parquet", "zstd.parquet"}) {
    CAPTURE(name);
    CheckSame(ReadAll(Format::kParquet, {Path(name)}), expected);
    CheckSame(ReadAll(Format::kParquet, {Path(name)}, 64, {.threads = 3}), expected);
    const ReadOptions some{.keep_negatives = 0.5, .seed = 3, .threads = 2};
    CheckSame(ReadAll(Format::kParquet, {Path(name)}, 64, some),
              ReadAll(Format::kCsv, {Path("rows.csv")}, 64, some));
  }
  for (const char* name : {"rows.arrow", "stream.arrow", "views.arrow"}) {
    CAPTURE(name);
    CheckSame(ReadAll(Format::kArrow, {Path(name)}), expected);
  }
  CheckSame(ReadAll(Format::kParquet,
                    {Path("half0.parquet"), Path("none.parquet"), Path("half1.parquet")}),
            expected);
}

TEST_CASE("Reading continues behind every batch of every share") {
  const std::vector<std::string> files{Path("half0.parquet"), Path("half1.parquet")};
  const uint64_t window = GENERATE(0U, 150U);
  for (const uint32_t shares : {1U, 3U}) {
    DataPosition start({.batch_size = 37, .piece_batches = 2, .shares = shares});
    start.SetWindow(window);
    for (uint32_t share = 0; share < shares; ++share) {
      ReadOptions options{.share = share, .shares = shares, .piece_batches = 2, .read = &start};
      const std::vector<Batch> all = ReadAll(Format::kParquet, files, 37, options);
      CheckSame(all, ReadAll(Format::kCsv, {Path("rows.csv")}, 37, options));
      if (shares == 1) CHECK(all.back().progress.rows == 1'000);
      for (size_t i = 0; i < all.size(); ++i) {
        DataPosition position = start;
        position.Advance(all[i].progress);
        options.read = &position;
        CheckSame(ReadAll(Format::kParquet, files, 37, options), all, i + 1);
      }
    }
  }
}

std::string ContentOf(const std::string& name) {
  std::ifstream file(Path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The rows of the files, as records of a partition with gaps in its offsets.
std::deque<FakeStream::Step> Records() {
  std::deque<FakeStream::Step> records;
  for (uint64_t i = 0; i < 6; ++i) {
    records.push_back({"t/0", 10 * i, ContentOf("record" + std::to_string(i))});
  }
  return records;
}

TEST_CASE("Records of many rows are read on behind every batch, which may end within them") {
  const std::vector<Batch> expected = ReadAll(Format::kCsv, {Path("rows.csv")}, 37);
  StreamOffsets begin;
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, OffsetsText(begin));
    std::deque<FakeStream::Step> records = Records();
    // Delivered again.
    for (size_t k = 0; i % 2 == 1 && k < 6; ++k) records.push_back(records[k]);
    FakeStream stream(std::move(records));
    const auto reader =
        OpenStreamReader(Example(Format::kArrow), Features(Format::kArrow), stream, begin, 37);
    REQUIRE(reader.ok());
    const std::vector<Batch> rest = AllOf(**reader);
    CheckSame(rest, expected, i);
    begin = rest.front().progress.offsets;
    // A record whose rows have all been read has been passed.
    CHECK(rest.back().progress.offsets == StreamOffsets{{"t/0", 51}});
  }
}

TEST_CASE("What cannot be read of a record is one bad row, with its place") {
  std::deque<FakeStream::Step> records = Records();
  const std::string first = *records[0].value;
  const std::string third = *records[3].value;  // Three batches.
  records[1].value = "";
  records[2].value = "poison";
  records[3].value = third.substr(0, third.size() * 5 / 6);
  records[4].value = first.substr(0, first.size() - 1);
  DataConfig config = Example(Format::kArrow);
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  FakeStream stream(records);
  const auto reader = OpenStreamReader(config, Features(Format::kArrow), stream, {}, 1'000);
  REQUIRE(reader.ok());
  const std::vector<Batch> batches = AllOf(**reader);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].size() == 100 + 180 + 400);
  CHECK((*reader)->skipped_rows() == 4);
  CHECK(batches[0].progress.offsets == StreamOffsets{{"t/0", 51}});

  config.on_bad_row = DataConfig::OnBadRow::kFail;
  FakeStream again(std::deque<FakeStream::Step>{records[3]});
  const auto failing = OpenStreamReader(config, Features(Format::kArrow), again, {}, 1'000);
  REQUIRE(failing.ok());
  CHECK_THAT(std::string((*failing)->Next().status().message()),
             Contains("t/0 at offset 30, row 181: record: "));
}

// Damaged bytes are an error or other values, whatever they are.
TEST_CASE("Records with damaged bytes do no harm") {
  DataConfig config = Example(Format::kArrow);
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  std::deque<FakeStream::Step> records;
  uint64_t random = 1;
  for (uint64_t i = 0; i < 500; ++i) {
    std::string bytes = ContentOf(i % 2 == 0 ? "record0" : "record3");
    for (int k = 0; k < 8; ++k) {
      random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
      bytes[(random >> 33) % bytes.size()] ^= static_cast<char>(1U << (random >> 61));
    }
    records.push_back({"t/0", i, std::move(bytes)});
  }
  FakeStream stream(std::move(records));
  const auto reader = OpenStreamReader(config, Features(Format::kArrow), stream, {}, 1'000);
  REQUIRE(reader.ok());
  AllOf(**reader);
  CHECK((*reader)->skipped_rows() > 0);
}

Status ReadStatus(const DataConfig& config, const std::string& file,
                  const ReadOptions& options = {},
                  const std::vector<FeatureConfig>& features = {}) {
  auto reader = OpenBatchReader(config, features, {file}, 100, options);
  if (!reader.ok()) return reader.status();
  for (;;) {
    const auto batch = (*reader)->Next();
    if (!batch.ok() || !batch->has_value()) return batch.status();
  }
}

DataConfig Of(Format format, std::vector<ColumnConfig> columns) {
  DataConfig config;
  config.format = format;
  config.columns = std::move(columns);
  return config;
}

TEST_CASE("Columns that are not configured, and row groups that have been read, are not read") {
  const std::string file = Path("damaged.parquet");
  CHECK(
      ReadStatus(Of(Format::kParquet, {Column("y", Kind::kLabel), Column("x", Kind::kDense)}), file)
          .ok());
  const DataConfig config =
      Of(Format::kParquet, {Column("y", Kind::kLabel), Column("city", Kind::kId)});
  const Status damaged = ReadStatus(config, file);
  CHECK(absl::IsDataLoss(damaged));
  CHECK_THAT(std::string(damaged.message()), Contains(file) && Contains("column 'city': "));
  DataPosition position({.batch_size = 100, .piece_batches = 1, .shares = 1});
  position.Advance({.share = 0, .files = 1, .next = {.epoch = 0, .row = 500}});
  CHECK(ReadStatus(config, file, {.read = &position}).ok());
}

TEST_CASE("Errors name the file, the column and the remedy") {
  const std::vector<ColumnConfig> columns{Column("y", Kind::kLabel), Column("city", Kind::kId)};
  const auto message = [&](const std::string& name, std::vector<ColumnConfig> of) {
    const Status status = ReadStatus(
        Of(name.ends_with("arrow") ? Format::kArrow : Format::kParquet, std::move(of)), Path(name));
    CHECK_FALSE(status.ok());
    CHECK_THAT(std::string(status.message()), Contains(Path(name)));
    return std::string(status.message());
  };
  for (const char* name : {"short.parquet", "text.parquet", "empty.parquet", "short.arrow"}) {
    message(name, columns);
  }
  CHECK_THAT(message("default.parquet", {columns[0], Column("cty", Kind::kId)}),
             Contains("no column 'cty'; the nearest column is 'city'"));
  CHECK_THAT(message("types.parquet", {columns[0], Column("wide", Kind::kDense)}),
             Contains("column 'wide': has the Arrow type decimal of more than 128 bits") &&
                 Contains("is not read; cast it"));
  CHECK_THAT(message("default.parquet", {columns[0], Column("tags", Kind::kDense)}),
             Contains("column 'tags'") && Contains("kind: id"));
  CHECK_THAT(message("default.parquet", {columns[0], Column("city", Kind::kDense)}),
             Contains("row ") && Contains("column 'city'") && Contains("is not a finite number"));
  CHECK(absl::IsNotFound(ReadStatus(Of(Format::kParquet, columns), Folder() + "/no.parquet")));
}

constexpr char kOddName[] = "odd name%3A[1].csv";
constexpr size_t kLargeBytes = 2 * RemoteFileReader::kBlockBytes + 12'345;

std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// An S3 server with files of the folder.
class Server {
 public:
  Server() {
    const std::string rows = TextOf(Path("rows.csv"));
    for (const char* name : {"rows.csv.gz", "rows.csv.zst"}) {
      auto file = FileWriter::Create(Path(name)).value();
      REQUIRE(file.Append(rows).ok());
      REQUIRE(file.Commit().ok());
    }
    std::ofstream(Path(kOddName), std::ios::binary) << rows;
    std::ofstream large(Path("large.txt"), std::ios::binary);
    for (size_t i = 0; i < kLargeBytes; ++i) large.put(static_cast<char>('a' + i * i % 23));
    large.close();
    server_.emplace(Folder(),
                    std::vector<std::string>{"half0.parquet", "half1.parquet", "rows.csv",
                                             "rows.csv.gz", "rows.csv.zst", "large.txt", kOddName});
  }

  std::string Uri(const std::string& name = "") const { return server_->Uri(name); }

 private:
  std::optional<testing::S3Server> server_;
};

const Server& TheServer() {
  static const Server server;
  return server;
}

TEST_CASE("Text files of an S3 server are read as those of a disk, however packed") {
  const std::vector<Batch> expected = ReadAll(Format::kCsv, {Path("rows.csv")});
  const Server& server = TheServer();
  for (const char* name : {"/rows.csv", "/rows.csv.gz", "/rows.csv.zst", "/r*.gz", "/odd*.csv"}) {
    CAPTURE(name);
    CheckSame(ReadAll(Format::kCsv, {server.Uri(name)}), expected);
    CheckSame(ReadAll(Format::kCsv, {server.Uri(name)}, 64, {.threads = 3}), expected);
  }
  const DataConfig config = Of(Format::kCsv, {Column("y", Kind::kLabel)});
  CHECK(absl::IsNotFound(ReadStatus(config, server.Uri("/none.csv"))));
  const Status secret = ReadStatus(config, "s3://KEY:SECRET@bucket/rows.csv");
  CHECK(absl::IsInvalidArgument(secret));
  CHECK_THAT(std::string(secret.message()), Contains("has credentials") && !Contains("SECRET@"));
  CHECK_THAT(std::string(ReadStatus(config, server.Uri("/*.tsv")).message()),
             Contains("names no file") && Contains("/*.tsv"));
}

TEST_CASE("A file of several requests to an S3 server is read from every place") {
  const std::string expected = TextOf(Path("large.txt"));
  const std::string uri = TheServer().Uri("/large.txt");
  constexpr size_t kBlock = RemoteFileReader::kBlockBytes;
  for (const size_t from :
       {size_t{0}, size_t{1}, kBlock - 1, kBlock, 2 * kBlock + 7, kLargeBytes - 1}) {
    CAPTURE(from);
    auto stream = OpenByteStream(uri, false, {.text = from, .file = from}).value();
    std::string text;
    std::vector<char> buffer(size_t{1} << 20);
    for (;;) {
      const size_t count = stream->Read(buffer.data(), buffer.size()).value();
      if (count == 0) break;
      text.append(buffer.data(), count);
    }
    CHECK(text.size() == expected.size() - from);
    CHECK((text == std::string_view(expected).substr(from)));
  }
}

TEST_CASE("Parquet files of an S3 server: one, a folder, and those of a pattern") {
  const std::vector<Batch> expected = ReadAll(Format::kCsv, {Path("rows.csv")});
  const Server& server = TheServer();
  CAPTURE(server.Uri());
  CheckSame(ReadAll(Format::kParquet, {server.Uri()}), expected);
  CheckSame(ReadAll(Format::kParquet, {server.Uri("/half*.parq[u]et")}), expected);
  CheckSame(ReadAll(Format::kParquet, {server.Uri("/half0.parquet"), server.Uri("/half1.parquet")}),
            expected);
  const std::vector<DataFile> files = IdentifyFiles({server.Uri()}).value();
  REQUIRE(files.size() == 2);
  CHECK(files[1].bytes == std::filesystem::file_size(Path("half1.parquet")));
  const DataConfig config = Of(Format::kParquet, {Column("y", Kind::kLabel)});
  const Status missing = ReadStatus(config, server.Uri("/none.parquet"));
  CHECK(absl::IsNotFound(missing));
  CHECK_THAT(std::string(missing.message()), Contains("/none.parquet"));
}

TEST_CASE("Statistics of Parquet columns are those of the CSV file's") {
  std::vector<std::pair<double, double>> fitted;
  for (const Format format : {Format::kCsv, Format::kParquet}) {
    DataConfig config = Example(format);
    config.columns[1].fit = config.columns[2].fit = true;
    config.train = {Path(format == Format::kCsv ? "rows.csv" : "default.parquet")};
    std::vector<FeatureConfig> features = Features(format);
    REQUIRE(FitStatistics(config, features).ok());
    for (const size_t c : {1, 2})
      fitted.emplace_back(config.columns[c].mean, config.columns[c].stddev);
  }
  CHECK(fitted[0] == fitted[2]);
  CHECK(fitted[1] == fitted[3]);
}

TEST_CASE("Decimals, half floats and lists are numbers, and folders give columns", "[arrow]") {
  ColumnConfig vector = Column("vector", Kind::kDense);
  vector.width = 2;
  const DataConfig config =
      Of(Format::kParquet,
         {Column("y", Kind::kLabel), Column("d", Kind::kDense), Column("half", Kind::kDense),
          vector, Column("day", Kind::kId), Column("fold", Kind::kDense)});
  const auto samples = ReadSamples(
      config, {Feature("day")},
      {Path("hive/fold=3/day=2024-01-01/a.parquet"), Path("hive/fold=4/day=a%3Db%20c/b.parquet"),
       Path("hive/fold=5/day=__HIVE_DEFAULT_PARTITION__/c.parquet")});
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK((*samples)[i].dense ==
          (i % 2 == 0 ? std::vector<float>{1.5F, 0.25F, 1, -0.5F, 3 + static_cast<float>(i / 2)}
                      : std::vector<float>{-2.25F, 3, 4, 5, 3 + static_cast<float>(i / 2)}));
  }
  const auto day = [&](size_t i) { return (*samples)[i].ids.front(); };
  CHECK(day(0) == std::vector<uint64_t>{HashText("2024-01-01", 0)});
  CHECK(day(2) == std::vector<uint64_t>{HashText("a=b c", 0)});
  CHECK(day(4).empty());
}

}  // namespace
}  // namespace simurgh
