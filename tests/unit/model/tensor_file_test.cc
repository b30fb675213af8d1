#include "model/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh {
namespace {

using Catch::Contains;
using testing::BytesOf;
using testing::MemoryFileSystem;
using testing::ReadText;
using testing::TestRows;
using testing::WriteText;

uint64_t HeaderLength(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return length;
}

// A file with this header and as many zeros behind it.
std::string FileOf(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(data_bytes, '\0');
}

std::vector<std::byte> ReadAll(TensorFileReader& reader, const std::string& name, uint64_t rows,
                               uint64_t row_bytes, uint64_t step) {
  std::vector<std::byte> bytes(rows * row_bytes);
  for (uint64_t row = 0; row < rows; row += step) {
    const uint64_t count = std::min(step, rows - row);
    const Status read =
        reader.Read(name, row, count, std::span(bytes).subspan(row * row_bytes, count * row_bytes));
    INFO(read);
    REQUIRE(read.ok());
  }
  return bytes;
}

bool Equal(const std::vector<std::byte>& found, std::span<const std::byte> expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end());
}

TEST_CASE("What is written in pieces is read in other pieces") {
  const TemporaryFolder folder;
  const uint64_t rows = GENERATE(0, 1, 65'536, 150'000);
  CAPTURE(rows);
  const TestRows test(rows);
  const std::string path = folder.Path("t.safetensors");
  const ModelFile written = test.Write(path, 999);
  auto reader = TensorFileReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(reader->file() == written);
  CHECK(written.bytes == std::filesystem::file_size(path));
  CHECK(reader->has_sums());
  CHECK(reader->metadata() == TensorMetadata{{"half.format", "bf16"}, {"table", "t"}});
  CHECK(reader->tensors().size() == 4);
  if (rows > 0) CHECK(reader->tensors()[0] == TensorSpec{"id", DType::kU64, {rows}});
  CHECK(Equal(ReadAll(*reader, "id", rows, 8, 65'537), BytesOf(test.id)));
  CHECK(Equal(ReadAll(*reader, "weights", rows, 12, 1'000'000), BytesOf(test.weights)));
  CHECK(Equal(ReadAll(*reader, "half", rows, 6, 4096), BytesOf(test.bf16)));
  CHECK(Equal(ReadAll(*reader, "uses", rows, 2, 7777), BytesOf(test.uses)));
}

TEST_CASE("The layout: header padded, checksums first, elements aligned, without a gap") {
  const TemporaryFolder folder;
  const TestRows test(70'000);
  const std::string path = folder.Path("t.safetensors");
  test.Write(path, 4096);
  const std::string file = ReadText(path);
  const uint64_t length = HeaderLength(file);
  CHECK(length % 8 == 0);
  const std::string header = file.substr(8, length);
  CHECK(header.starts_with('{'));
  // Two checksums of four tensors: 64 bytes. Then id, weights, and those of two bytes.
  CHECK_THAT(header, Contains(R"("sums":{"data_offsets":[0,64],"dtype":"U64","shape":[8]})"));
  CHECK_THAT(header, Contains(R"("id":{"data_offsets":[64,560064],"dtype":"U64")"));
  CHECK_THAT(header, Contains(R"("weights":{"data_offsets":[560064,1400064],"dtype":"F32")"));
  CHECK_THAT(header, Contains(R"("uses":{"data_offsets":[1400064,1540064])"));
  CHECK_THAT(header, Contains(R"("half":{"data_offsets":[1540064,1960064])"));
  CHECK(file.size() == 8 + length + 1'960'064);
  // Independent of the streaming hash: the whole chunk at once. Checksum 1 is of id's second one.
  uint64_t sum = 0;
  std::memcpy(&sum, file.data() + 8 + length + 8, sizeof(sum));
  CHECK(sum == HashBytes({reinterpret_cast<const char*>(test.id.data() + 65'536), 4464 * 8}));
}

TEST_CASE("Tensors of different lengths are written one by one") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("dense.safetensors");
  const std::vector<float> weight(12, 1.5F);
  const std::vector<float> bias{1, 2, 3};
  const std::vector<double> rate{0.25};
  auto writer = TensorFileWriter::Create(path,
                                         {{"top.0.weight", DType::kF32, {3, 4}},
                                          {"top.0.bias", DType::kF32, {3}},
                                          {"rate", DType::kF64, {}},
                                          {"empty", DType::kU8, {5, 0}}},
                                         {});
  REQUIRE(writer.ok());
  CHECK(writer->Write("top.0.bias", BytesOf(bias)).ok());
  CHECK(writer->Write("top.0.weight", BytesOf(weight).first(16)).ok());
  CHECK(writer->Write("rate", BytesOf(rate)).ok());
  CHECK(writer->Write("top.0.weight", BytesOf(weight).subspan(16)).ok());
  REQUIRE(writer->Finish().ok());
  auto reader = TensorFileReader::Open(path);
  INFO(reader.status());
  REQUIRE(reader.ok());
  CHECK(reader->metadata().empty());
  CHECK(Equal(ReadAll(*reader, "top.0.weight", 3, 16, 3), BytesOf(weight)));
  CHECK(Equal(ReadAll(*reader, "rate", 1, 8, 1), BytesOf(rate)));
  CHECK(Equal(ReadAll(*reader, "empty", 5, 0, 5), {}));
}

TEST_CASE("Missing rows are an error, and an unfinished file is removed") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("t.safetensors");
  {
    TensorFileWriter writer = TestRows(10).Create(path);
    CHECK(writer.Write("id", BytesOf(std::vector<uint64_t>(9))).ok());
    const Status status = writer.Finish().status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Contains("t.safetensors: tensor ") && Contains(" of 10 rows"));
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(writer.Finish().status() == status);
  }
  {
    const TensorFileWriter writer = TestRows(10).Create(path);
  }
  CHECK_FALSE(std::filesystem::exists(path));
  TestRows(10).Write(path, 10);
  CHECK(absl::IsAlreadyExists(TensorFileWriter::Create(path, {}, {}).status()));
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("A failed write or sync is final: the file is removed and not synced again") {
  for (const std::string& operation : {"write /t", "sync /t"}) {
    CAPTURE(operation);
    MemoryFileSystem good;
    TestRows(10).Write("/t", 10, good);
    const auto& log = good.log();
    const auto at = std::find(log.begin(), log.end(), operation);
    REQUIRE(at != log.end());
    MemoryFileSystem files;
    // The first write is the header's; take the second.
    files.FailOnce(static_cast<uint64_t>(at - log.begin()) + (operation[0] == 'w' ? 1 : 0),
                   absl::UnknownError("I/O error"));
    TensorFileWriter writer = TestRows(10).Create("/t", files);
    const TestRows rows(10);
    const std::vector<std::span<const std::byte>> parts{BytesOf(rows.uses), BytesOf(rows.weights),
                                                        BytesOf(rows.bf16), BytesOf(rows.id)};
    const Status appended = writer.Append(10, parts);
    CHECK(appended.ok() == (operation[0] == 's'));
    CHECK(writer.Finish().status() == absl::UnknownError("I/O error"));
    CHECK(writer.Append(0, std::vector<std::span<const std::byte>>(4)) ==
          absl::UnknownError("I/O error"));
    CHECK(writer.Finish().status() == absl::UnknownError("I/O error"));
    CHECK(std::count(files.log().begin(), files.log().end(), "sync /t") == 0);
    CHECK(absl::IsNotFound(files.Open("/t").status()));
  }
}

TEST_CASE("Each damaged bit is found: in the header, the checksums and the rows") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("t.safetensors");
  const ModelFile written = TestRows(70'000, 1).Write(path, 4096);
  const std::string good = ReadText(path);
  const uint64_t data = 8 + HeaderLength(good);
  const auto check = [&](size_t at) -> Status {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    WriteText(path, bad);
    auto reader = TensorFileReader::Open(path);
    if (!reader.ok()) return reader.status();
    if (reader->file() != written) return absl::DataLossError("hash");
    for (const TensorSpec& spec : reader->tensors()) {
      std::vector<std::byte> bytes(spec.rows() * spec.row_bytes());
      const Status read = reader->Read(spec.name, 0, spec.rows(), bytes);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  };
  CHECK(check(0).code() == absl::StatusCode::kDataLoss);
  for (size_t at = 8; at < data + 64; at += 3) CHECK(absl::IsDataLoss(check(at)));
  for (size_t at = data + 64; at < good.size(); at += 9973) CHECK(absl::IsDataLoss(check(at)));
  CHECK_THAT(std::string(check(data + 64 + 8 * 65'540).message()),
             Contains(path + ": tensor id, rows 65536 to 69999: the checksum is ") &&
                 Contains("use another checkpoint"));
}

TEST_CASE("Rows from other places are read unchecked, then checked from the next checksum on") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("t.safetensors");
  TestRows(200'000, 1).Write(path, 200'000);
  std::string bad = ReadText(path);
  const auto reader_of_id_at = [&](uint64_t row) {
    // id is behind the 16 checksums.
    std::string file = bad;
    file[8 + HeaderLength(file) + 128 + row * 8] ^= 1;
    WriteText(path, file);
    return *TensorFileReader::Open(path);
  };
  std::vector<std::byte> bytes(200'000 * 8);
  const auto read = [&](TensorFileReader& reader, uint64_t row, uint64_t rows) {
    return reader.Read("id", row, rows, std::span(bytes).first(rows * 8)).ok();
  };
  TensorFileReader first = reader_of_id_at(10);
  CHECK(read(first, 5, 100));           // Not from a checksum's first row on.
  CHECK(read(first, 5, 199'995));       // The damage is in the part that is not checked.
  CHECK(read(first, 0, 65'535));        // The checksum is incomplete,
  CHECK_FALSE(read(first, 65'535, 1));  // and now it is complete.
  CHECK(read(first, 65'536, 65'536));
  CHECK_FALSE(read(first, 0, 65'536));  // Again.
  TensorFileReader second = reader_of_id_at(70'000);
  CHECK_FALSE(read(second, 5, 199'995));
  CHECK(read(second, 0, 65'536));
  CHECK(read(second, 65'536, 10));
  CHECK(read(second, 7, 10));           // Breaks the order:
  CHECK(read(second, 65'546, 65'526));  // these are not checked.
  CHECK_FALSE(read(second, 65'536, 65'536));
  CHECK(absl::IsNotFound(second.Read("ids", 0, 0, {})));
  CHECK(absl::IsOutOfRange(second.Read("id", 199'999, 2, std::span(bytes).first(16))));
  CHECK(absl::IsOutOfRange(second.Read("id", ~uint64_t{0}, 2, std::span(bytes).first(16))));
}

TEST_CASE("A file of another program has no checksums") {
  const TemporaryFolder folder;
  const std::string path =
      folder.Write("t", FileOf(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                               R"("a":{"dtype":"U8","shape":[4,1],"data_offsets":[0,4]}}   )",
                               12));
  auto reader = TensorFileReader::Open(path);
  INFO(reader.status());
  REQUIRE(reader.ok());
  CHECK_FALSE(reader->has_sums());
  CHECK(reader->tensors()[0].name == "a");
  CHECK(Equal(ReadAll(*reader, "b", 2, 4, 1), BytesOf(std::vector<float>(2))));
}

TEST_CASE("Bad headers are refused, with file, tensor and remedy") {
  struct Bad {
    std::string header;
    size_t data_bytes;
    std::string message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {"", 0, "the text is not JSON"},
      {"[]", 0, "the text is not a JSON object"},
      {"{", 0, "the text is not JSON"},
      {"{} x", 0, "the text is not JSON"},
      {R"({"a":{"shape":[],"data_offsets":[0,0],"dtype":)" + std::string(1'000'000, '[') +
           std::string(1'000'000, ']') + "}}",
       0, "the JSON text is nested too deeply"},
      {R"({"__metadata__":[]})", 0, "tensor __metadata__: the value is not an object"},
      {R"({"__metadata__":{"a":1}})", 0, "tensor __metadata__: a is not a text"},
      {R"({"a":1})", 0, "tensor a: the entry must have exactly dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor a: the entry must have exactly"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4,
       "tensor a: the entry must have exactly"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4,
       R"(tensor a: dtype "F31" is not one of U8)"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "tensor a: shape is not a list of counts"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
       "tensor a: shape is not a list of counts"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4,
       "tensor a: shape is not a list of counts"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4,
       "tensor a: data_offsets is not a list of two counts"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", 5,
       "tensor a: dtype and shape need 4 bytes; data_offsets are 0 and 5"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
       "tensor a: dtype and shape need 4 bytes; data_offsets are 4 and 0"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "tensor a: its shape has 2^63 bytes or more"},
      {R"({"a":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}})", 0,
       "tensor a: its shape has 2^63 bytes or more"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2,
       "tensor a: the data begins at 1; the tensor before it ends at 0"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensor b: the data begins at 1; the tensor before it ends at 2"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, "a: the key repeats"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "its header describes"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "its header describes"},
      {R"({"sums":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}})", 8,
       "tensor sums has the shape [1]; the other tensors need 0 numbers of type U64"},
  }));
  const TemporaryFolder folder;
  const std::string path = folder.Write("t.safetensors", FileOf(bad.header, bad.data_bytes));
  const Status status = TensorFileReader::Open(path).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Catch::StartsWith(path + ": ") &&
                                                Contains(bad.message) &&
                                                Contains("use another checkpoint"));
}

TEST_CASE("The length of the header is checked before the header is read") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("t");
  for (const std::string& start : {std::string("1234567"), std::string(8, '\xff'),
                                   std::string("\1\0\0\1\0\0\0\0", 8) + std::string(100, ' ')}) {
    WriteText(path, start);
    const Status status = TensorFileReader::Open(path).status();
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Contains("bytes"));
  }
  CHECK(absl::IsNotFound(TensorFileReader::Open(folder.Path("none")).status()));
  CHECK(absl::IsInvalidArgument(
      TensorFileWriter::Create(path + "2", {}, {{"a", std::string(kMaxHeaderBytes, 'a')}})
          .status()));
}

}  // namespace
}  // namespace simurgh
