#include "data/reading/file_writer.h"

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "data/reading/byte_stream.h"
#include "tests/unit/data/data_files.h"

namespace simurgh {
namespace {

size_t FileCount(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.Path(""));
  return std::distance(begin(files), end(files));
}

std::string ReadStream(const std::string& path) {
  auto stream = OpenByteStream(path);
  REQUIRE(stream.ok());
  std::string content;
  std::string buffer(100'000, '\0');
  for (;;) {
    const auto count = (*stream)->Read(buffer.data(), buffer.size());
    REQUIRE(count.ok());
    if (*count == 0) return content;
    content.append(buffer, 0, *count);
  }
}

TEST_CASE("A committed file holds what was appended, compressed if its name says so") {
  const TemporaryFolder folder;
  const std::string name = GENERATE("a.tsv", "a.tsv.zst");
  const std::string path = folder.Write(name, "the file before");
  std::string expected;
  auto writer = FileWriter::Create(path);
  REQUIRE(writer.ok());
  for (int n = 0; n < 200'000; ++n) {
    const std::string piece = std::to_string(n * 7919L % 1'000'003) + "\n";
    expected += piece;
    REQUIRE(writer->Append(piece).ok());
  }
  CHECK(ReadWholeFile(path) == "the file before");
  REQUIRE(writer->Commit().ok());
  CHECK(ReadStream(path) == expected);
  CHECK((ReadWholeFile(path) == expected) == !path.ends_with(".zst"));
  CHECK(FileCount(folder) == 1);
}

TEST_CASE("An empty file is written too") {
  const TemporaryFolder folder;
  const std::string path = folder.Path(GENERATE("a", "a.zst"));
  auto writer = FileWriter::Create(path);
  REQUIRE(writer.ok());
  REQUIRE(writer->Commit().ok());
  CHECK(ReadStream(path).empty());
}

TEST_CASE("Without commit nothing is left, and what was there stays") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "old");
  {
    auto writer = FileWriter::Create(path);
    REQUIRE(writer.ok());
    REQUIRE(writer->Append("new").ok());
    CHECK(ReadWholeFile(path) == "old");
  }
  CHECK(FileCount(folder) == 1);
  CHECK(ReadWholeFile(path) == "old");
}

TEST_CASE("A folder that is not there is named") {
  const TemporaryFolder folder;
  const auto writer = FileWriter::Create(folder.Path("missing/a"));
  CHECK(writer.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(writer.status().message()), Catch::Contains("missing/a"));
}

TEST_CASE("A name taken by a folder fails on commit and leaves nothing") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.Path("taken"));
  {
    auto writer = FileWriter::Create(folder.Path("taken"));
    REQUIRE(writer.ok());
    const Status status = writer->Commit();
    CHECK_FALSE(status.ok());
    CHECK_THAT(std::string(status.message()), Catch::Contains("cannot replace"));
  }
  CHECK(FileCount(folder) == 1);
}

}  // namespace
}  // namespace simurgh
