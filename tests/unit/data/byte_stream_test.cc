#include "data/reading/byte_stream.h"

#include <string>

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/data/data_files.h"

namespace simurgh {
namespace {

// Everything the stream has, read in pieces of `piece` bytes.
StatusOr<std::string> ReadAll(const std::string& path, size_t piece) {
  SIMURGH_ASSIGN_OR_RETURN(auto stream, OpenByteStream(path));
  std::string content;
  std::string buffer(piece, '\0');
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const size_t count, stream->Read(buffer.data(), piece));
    if (count == 0) return content;
    content.append(buffer, 0, count);
  }
}

// Half compressible, half noise.
std::string Text(uint64_t seed, size_t size) {
  Random random(seed);
  std::string text;
  while (text.size() < size) {
    text += random.Below(2) == 0 ? std::string(random.Below(50), 'x') : std::to_string(random());
  }
  text.resize(size);
  return text;
}

TEST_CASE("Streams read back what was written, however it is packed and read") {
  const TemporaryFolder folder;
  const size_t size = GENERATE(0, 1, 5, 131'071, 131'072, 131'073, 1'000'003);
  const size_t smallest = size > 200'000 ? 4'096 : 1;  // Large files in single bytes take long.
  const size_t piece = GENERATE_COPY(values<size_t>({smallest, 50'000, 200'000}));
  const std::string text = Text(size, size);
  CAPTURE(size, piece);
  CHECK(*ReadAll(folder.Write("plain", text), piece) == text);
  CHECK(*ReadAll(folder.Write("gzip", Gzip(text)), piece) == text);
  CHECK(*ReadAll(folder.Write("zstd", Zstd(text)), piece) == text);
}

TEST_CASE("Data that is compressed in another format, or twice, is named") {
  using std::string_literals::operator""s;
  struct Packed {
    std::string start;
    std::string message;
  };
  const std::string other = "; decompress it first, or use gzip or zstd";
  const std::string twice = "; the data is compressed twice; decompress it once";
  const Packed packed = GENERATE_COPY(values<Packed>({
      {"\xfd\x37zXZ\0\0\4"s, "is compressed by xz" + other},
      {"BZh91AY&SY\x12", "is compressed by bzip2" + other},
      {"PK\3\4\x14\0"s, "is compressed by zip" + other},
      {"7z\xbc\xaf\x27\x1c\0\4"s, "is compressed by 7z" + other},
      {"\4\"M\x18\x64", "is compressed by lz4" + other},
      {"\x1f\x9d\x90", "is compressed by compress" + other},
      {Gzip(Zstd("1,2\n")), "is compressed by zstd" + twice},
      {Zstd(Gzip("1,2\n")), "is compressed by gzip" + twice},
      {Gzip(Gzip("1,2\n")), "is compressed by gzip" + twice},
  }));
  const TemporaryFolder folder;
  CHECK(ReadAll(folder.Write("packed", packed.start), 4'096).status() ==
        absl::FailedPreconditionError(packed.message));
  CHECK(*ReadAll(folder.Write("text", "BZh,PK"), 4'096) == "BZh,PK");
}

TEST_CASE("Text in UTF-16 is refused with a remedy") {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string("\xff\xfe"
                                              "a\0",
                                              4),
                                  std::string("\xfe\xff\0a", 4)}) {
    const auto content = ReadAll(folder.Write("text", text), 1'000);
    CHECK(content.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(content.status().message()),
               Catch::EndsWith(
                   "is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 in.csv > out.csv"));
  }
}

TEST_CASE("Members and frames in a row are one stream") {
  const TemporaryFolder folder;
  std::string text;
  std::string gzip;
  std::string zstd("\x5a\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);  // A skippable frame.
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string part = Text(seed, seed * 1'000);
    text += part;
    gzip += Gzip(part);
    zstd += Zstd(part);
  }
  const size_t piece = GENERATE(7, 65'536);
  CHECK(*ReadAll(folder.Write("gzip", gzip), piece) == text);
  CHECK(*ReadAll(folder.Write("zstd", zstd), piece) == text);
}

TEST_CASE("A torn stream is DATA_LOSS wherever it is torn") {
  const TemporaryFolder folder;
  const std::string text = Text(3, 700);
  const std::string packed = GENERATE_COPY(Gzip(text), Zstd(text));
  // With less than 4 bytes the format is unknown, and the file is read as plain text.
  for (size_t size = 4; size < packed.size(); ++size) {
    const auto content = ReadAll(folder.Write("torn", packed.substr(0, size)), 1'000);
    CAPTURE(size, packed.size());
    REQUIRE(content.status().code() == absl::StatusCode::kDataLoss);
    REQUIRE_THAT(std::string(content.status().message()), Catch::Contains("too early"));
  }
}

TEST_CASE("A damaged stream, or one with something else behind it, is DATA_LOSS") {
  const TemporaryFolder folder;
  const std::string text = Text(4, 3'000);
  const bool gzip = GENERATE(true, false);
  std::string packed = gzip ? Gzip(text) : Zstd(text);
  SECTION("something behind") { packed += "and more"; }
  SECTION("a flipped bit in the data") { packed[packed.size() / 2] ^= 4; }
  const auto content = ReadAll(folder.Write("damaged", packed), 1'000);
  if (gzip || !content.ok()) {
    CHECK(content.status().code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(content.status().message()), Catch::Contains("damaged"));
  } else {
    CHECK(*content != text);  // ZSTD_compress writes no checksum.
  }
}

TEST_CASE("Files that cannot be read are errors that name them") {
  const TemporaryFolder folder;
  const auto missing = OpenByteStream(folder.Path("missing"));
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.status().message()), Catch::Contains(folder.Path("missing")));
  const auto directory = OpenByteStream(folder.Path("."));
  CHECK_FALSE(directory.ok());
  CHECK_THAT(std::string(directory.status().message()), Catch::Contains(folder.Path(".")));
}

TEST_CASE("A pipe without a writer is refused at once") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(folder.Path("pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder.Path("pipe"), std::string("/dev/null")}) {
    const auto stream = OpenByteStream(path);
    CHECK(stream.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(stream.status().message() ==
          path +
              " is not a regular file; write the data to one, because it is read more than once");
  }
}

}  // namespace
}  // namespace simurgh
