#include "data/byte_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(ChunkedFile file) : file_(std::move(file)) {}

  StatusOr<size_t> Read(char* data, size_t size) override {
    SIMURGH_RETURN_IF_ERROR(file_.Refill());
    const size_t count = std::min(size, file_.chunk().size());
    std::memcpy(data, file_.chunk().data(), count);
    file_.Consume(count);
    return count;
  }

 private:
  ChunkedFile file_;
};

// Source: RFC 1952, 2.3.1.
bool IsGzip(std::string_view start) { return start.starts_with("\x1f\x8b"); }

// A frame, or a skippable frame: 0x184D2A50 to 5F, little-endian.
// Source: RFC 8878, 3.1.
bool IsZstd(std::string_view start) {
  if (start.starts_with("\x28\xb5\x2f\xfd")) return true;
  return start.size() >= 4 && (static_cast<uint8_t>(start[0]) & 0xf0) == 0x50 &&
         start.substr(1).starts_with("\x2a\x4d\x18");
}

// The format of compressed data that begins so; empty if it is none of these.
// Source: magic(5) of file 5.44, "compress" and "archive".
std::string_view CompressionOf(std::string_view start) {
  using std::string_view_literals::operator""sv;
  constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"\xfd\x37zXZ\0"sv, "xz"},
      {"PK\x03\x04"sv, "zip"},
      {"7z\xbc\xaf\x27\x1c"sv, "7z"},
      {"\x04\x22M\x18"sv, "lz4"},
      {"\x1f\x9d"sv, "compress"}};
  for (const auto& [magic, name] : kFormats) {
    if (start.starts_with(magic)) return name;
  }
  if (start.size() > 4 && start.starts_with("BZh") && start.substr(4).starts_with("1AY&SY"))
    return "bzip2";
  if (IsGzip(start)) return "gzip";
  return IsZstd(start) ? "zstd" : std::string_view();
}

// Remedies of TextStream.
constexpr char kOther[] = "decompress it first, or use gzip or zstd";
constexpr char kTwice[] = "the data is compressed twice; decompress it once";

// Refuses data that is still compressed.
class TextStream final : public ByteStream {
 public:
  // remedy: for compressed data, of static storage duration.
  TextStream(std::unique_ptr<ByteStream> stream, const char* remedy)
      : stream_(std::move(stream)), remedy_(remedy) {}

  StatusOr<size_t> Read(char* data, size_t size) override {
    SIMURGH_ASSIGN_OR_RETURN(const size_t count, stream_->Read(data, size));
    if (std::exchange(is_checked_, true)) return count;
    const std::string_view format = CompressionOf({data, count});
    if (format.empty()) return count;
    return absl::FailedPreconditionError(
        absl::StrCat("is compressed by ", std::string(format), "; ", remedy_));
  }

 private:
  const std::unique_ptr<ByteStream> stream_;
  const char* const remedy_;
  bool is_checked_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path, bool allow_pipes) {
  SIMURGH_ASSIGN_OR_RETURN(ChunkedFile file, ChunkedFile::Open(path, allow_pipes));
  if (IsGzip(file.chunk())) {
    return std::make_unique<TextStream>(NewGzipStream(std::move(file)), kTwice);
  }
  if (IsZstd(file.chunk())) {
    return std::make_unique<TextStream>(NewZstdStream(std::move(file)), kTwice);
  }
  return std::make_unique<TextStream>(std::make_unique<PlainStream>(std::move(file)), kOther);
}

}  // namespace simurgh
