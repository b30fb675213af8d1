#include "data/byte_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

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

}  // namespace

StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path) {
  SIMURGH_ASSIGN_OR_RETURN(ChunkedFile file, ChunkedFile::Open(path));
  if (IsGzip(file.chunk())) return NewGzipStream(std::move(file));
  if (IsZstd(file.chunk())) return NewZstdStream(std::move(file));
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace simurgh
