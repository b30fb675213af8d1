#include <algorithm>
#include <limits>
#include <utility>

#include <zlib.h>

#include "absl/strings/str_cat.h"

#include "data/byte_stream.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

constexpr int kGzipWrapper = 16;  // Added to the window size: expect gzip's header, not zlib's.

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(ChunkedFile file) : file_(std::move(file)) {
    SIMURGH_CHECK(inflateInit2(&inflater_, MAX_WBITS + kGzipWrapper) == Z_OK) << "out of memory";
  }
  ~GzipStream() override { inflateEnd(&inflater_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  StatusOr<size_t> Read(char* data, size_t size) override;

 private:
  ChunkedFile file_;
  z_stream inflater_{};
  bool in_member_ = false;       // Between a member's first byte and its last.
  bool output_waiting_ = false;  // The inflater may hold bytes that did not fit.
};

StatusOr<size_t> GzipStream::Read(char* data, size_t size) {
  size = std::min<size_t>(size, std::numeric_limits<uInt>::max());
  for (;;) {
    if (!output_waiting_) {
      SIMURGH_RETURN_IF_ERROR(file_.Refill());
      if (file_.chunk().empty()) {
        if (!in_member_) return 0;
        return absl::DataLossError("the gzip stream ends too early; write or copy the file again");
      }
    }
    if (!in_member_) inflateReset(&inflater_);
    in_member_ = true;
    inflater_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file_.chunk().data()));
    inflater_.avail_in = static_cast<uInt>(file_.chunk().size());
    inflater_.next_out = reinterpret_cast<Bytef*>(data);
    inflater_.avail_out = static_cast<uInt>(size);
    const int result = inflate(&inflater_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat(
          "the gzip stream is damaged (", inflater_.msg != nullptr ? inflater_.msg : zError(result),
          "); write or copy the file again"));
    }
    file_.Consume(file_.chunk().size() - inflater_.avail_in);
    in_member_ = result != Z_STREAM_END;
    output_waiting_ = in_member_ && inflater_.avail_out == 0;
    if (inflater_.avail_out < size) return size - inflater_.avail_out;
  }
}

}  // namespace

std::unique_ptr<ByteStream> NewGzipStream(ChunkedFile file) {
  return std::make_unique<GzipStream>(std::move(file));
}

}  // namespace simurgh
