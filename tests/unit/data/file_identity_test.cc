#include "data/reading/file_identity.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;
using OnChange = DataConfig::OnChange;

// Changes the file back to its first modification time.
void KeepTime(const std::string& path, fs::file_time_type time) { fs::last_write_time(path, time); }

TEST_CASE("A file that changes is named with what changed") {
  struct Change {
    std::string what;
    void (*make)(const TemporaryFolder& folder, const std::string& path);
  };
  const Change change = GENERATE(values<Change>({
      {"size from 200000 to 100000 bytes",
       [](const TemporaryFolder&, const std::string& path) { fs::resize_file(path, 100'000); }},
      {"size from 200000 to 200003 bytes",
       [](const TemporaryFolder&, const std::string& path) {
         std::ofstream(path, std::ios::app) << "abc";
       }},
      {"inode, by a file in its place",
       [](const TemporaryFolder& folder, const std::string& path) {
         fs::rename(folder.Write("new", std::string(200'000, 'x')), path);
       }},
      {"modification time",
       [](const TemporaryFolder&, const std::string& path) { KeepTime(path, {}); }},
      {"change time",
       [](const TemporaryFolder&, const std::string& path) {
         const auto time = fs::last_write_time(path);
         std::fstream(path, std::ios::in | std::ios::out).seekp(100'000) << "y";
         KeepTime(path, time);
       }},
      {"first or last 64 KiB",
       [](const TemporaryFolder&, const std::string& path) {
         const auto time = fs::last_write_time(path);
         std::fstream(path, std::ios::in | std::ios::out).seekp(199'000) << "y";
         KeepTime(path, time);
       }},
  }));
  CAPTURE(change.what);
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.csv", std::string(200'000, 'x'));
  FileIdentities fails(OnChange::kFail);
  FileIdentities warns(OnChange::kWarn);
  for (int times = 0; times < 2; ++times) {
    CHECK(fails.Check(path) == absl::OkStatus());
    CHECK(warns.Check(path) == absl::OkStatus());
  }
  change.make(folder, path);
  const Status status = fails.Check(path);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith(path + " has changed during the run: ") &&
                 Catch::Contains(change.what) &&
                 Catch::EndsWith("; every epoch must read the same rows: start again, or set "
                                 "data.on_change: warn"));

  const testing::LogLines lines;
  CHECK(warns.Check(path) == absl::OkStatus());
  CHECK_THAT(lines.text(), Catch::StartsWith("warning: " + path + " has changed"));
  const std::string once = lines.text();
  CHECK(warns.Check(path) == absl::OkStatus());
  CHECK(lines.text() == once);
}

TEST_CASE("A file without content, and one that is gone") {
  const TemporaryFolder folder;
  FileIdentities files(OnChange::kFail);
  CHECK(files.Check(folder.Write("empty", "")) == absl::OkStatus());
  CHECK(absl::IsNotFound(files.Check(folder.Path("missing"))));
}

TEST_CASE("A model continues with the files that it has read, in their order, and with new ones") {
  const TemporaryFolder folder;
  const std::string a = folder.Write("a.csv", std::string(100'000, 'a'));
  const std::string b = folder.Write("b.csv", "0\n");
  const std::string c = folder.Write("c d.csv", "1\n");
  const auto read = IdentifyFiles({a, b});
  REQUIRE(read.ok());
  CHECK(DataFilesFromText(DataFilesText(*read)).value() == *read);
  CHECK(DataFilesFromText(DataFilesText(*IdentifyFiles({c}))).value() == *IdentifyFiles({c}));
  CHECK(DataFilesFromText("").value().empty());
  CHECK(DataFilesFromText("1 000000000000000a c d.csv\n").value() ==
        std::vector<DataFile>{{"c d.csv", 1, 10, 0}});  // Of an older version.
  for (const std::string text : {"1\n", "1 2\n", "x 2 a\n", "1 x a\n", "1 2@x a\n"}) {
    CHECK(absl::IsDataLoss(DataFilesFromText(text).status()));
  }
  const auto check = [&](const std::vector<std::string>& paths) {
    const auto files = IdentifyFiles(paths);
    REQUIRE(files.ok());
    const Status status = CheckReadFiles(*read, *files);
    CHECK((status.ok() || absl::IsInvalidArgument(status)));
    return std::string(status.message());
  };
  CHECK(check({a, b}).empty());
  CHECK(check({a, b, c}).empty());
  const TemporaryFolder other;
  CHECK(check({other.Write("a.csv", std::string(100'000, 'a')), b}).empty());
  CHECK(check({a}) ==
        "data.train lists 1 files, the model has read 2; list 'b.csv' in place 1 again, and new "
        "files at the end");
  CHECK(check({b, a}) ==
        "data.train.0 is 'b.csv', the model has read 'a.csv' there; list the files in the same "
        "order, new ones at the end");
  CHECK(check({a, other.Write("b.csv", "0\n1\n")}) ==
        "data.train.1 ('b.csv') has changed: it has 4 bytes, the model has read 2; restore the "
        "file and add new rows as a new file at the end of the list");
  CHECK_THAT(check({other.Write("a.csv", std::string(99'999, 'a') + "b"), b}),
             Catch::StartsWith("data.train.0 ('a.csv') has changed: it has XXH3 "));
  CHECK(absl::IsNotFound(IdentifyFiles({folder.Path("missing")}).status()));
}

TEST_CASE("A file whose modification time has changed, and not its size and ends, is named") {
  const TemporaryFolder folder;
  std::string text(200'000, 'a');
  const std::string a = folder.Write("a.csv", text);
  const std::string b = folder.Write("b.csv", "0\n");
  const auto read = IdentifyFiles({a, b}).value();
  CHECK(TouchedFiles(read, DataFilesFromText(DataFilesText(read)).value()).empty());
  text[100'000] = 'b';
  folder.Write("a.csv", text);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(a, now + std::chrono::seconds(1));
  const auto changed = IdentifyFiles({a, b, a}).value();
  CHECK(CheckReadFiles(read, changed).ok());
  CHECK_THAT(TouchedFiles(read, changed),
             Catch::StartsWith("data.train.0 ('a.csv'): its modification time has changed"));
  auto unknown = read;
  unknown[0].modified_ns = 0;  // Of an older version.
  CHECK(TouchedFiles(unknown, changed).empty());
}

class Readings {
 public:
  StatusOr<std::unique_ptr<BatchReader>> Open() {
    DataConfig config;
    config.columns = {Column("y", ColumnConfig::Kind::kLabel)};
    return OpenBatchReader(config, {}, {path_}, 10'000, {.identities = &identities_});
  }
  void Append(const std::string& rows) const { std::ofstream(path_, std::ios::app) << rows; }

 private:
  static std::string Rows() {
    std::string rows;
    for (int row = 0; row < 200'000; ++row) rows += row % 2 == 0 ? "0\n" : "1\n";
    return rows;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.Write("a.csv", Rows());
  FileIdentities identities_{OnChange::kFail};
};

TEST_CASE("A change is found at the next opening of the file") {
  Readings readings;
  REQUIRE(readings.Open().ok());
  REQUIRE(readings.Open().ok());
  readings.Append("0\n");
  CHECK(absl::IsFailedPrecondition(readings.Open().status()));
}

TEST_CASE("A change during a reading is found at the end of the file") {
  Readings readings;
  const auto reader = readings.Open();
  REQUIRE(reader.ok());
  REQUIRE((*reader)->Next().ok());
  readings.Append("0\n");
  Status status;
  for (int batch = 0; status.ok() && batch < 30; ++batch) status = (*reader)->Next().status();
  CHECK(absl::IsFailedPrecondition(status));
}

}  // namespace
}  // namespace simurgh
