#include <utility>

#include <zstd.h>

#include "absl/strings/str_cat.h"

#include "data/byte_stream.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(ChunkedFile file) : file_(std::move(file)), decoder_(ZSTD_createDCtx()) {
    SIMURGH_CHECK(decoder_ != nullptr) << "out of memory";
  }
  ~ZstdStream() override { ZSTD_freeDCtx(decoder_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  StatusOr<size_t> Read(char* data, size_t size) override;

 private:
  ChunkedFile file_;
  ZSTD_DCtx* decoder_;           // Owned.
  bool in_frame_ = false;        // Between a frame's first byte and its last.
  bool output_waiting_ = false;  // The decoder may hold bytes that did not fit.
};

StatusOr<size_t> ZstdStream::Read(char* data, size_t size) {
  for (;;) {
    if (!output_waiting_) {
      SIMURGH_RETURN_IF_ERROR(file_.Refill());
      if (file_.chunk().empty()) {
        if (!in_frame_) return 0;
        return absl::DataLossError("the zstd stream ends too early; write or copy the file again");
      }
    }
    ZSTD_inBuffer input{file_.chunk().data(), file_.chunk().size(), 0};
    ZSTD_outBuffer output{data, size, 0};
    const size_t result = ZSTD_decompressStream(decoder_, &output, &input);
    if (ZSTD_isError(result) != 0) {
      return absl::DataLossError(absl::StrCat("the zstd stream is damaged (",
                                              ZSTD_getErrorName(result),
                                              "); write or copy the file again"));
    }
    file_.Consume(input.pos);
    in_frame_ = result != 0;
    output_waiting_ = in_frame_ && output.pos == size;
    if (output.pos > 0) return output.pos;
  }
}

}  // namespace

std::unique_ptr<ByteStream> NewZstdStream(ChunkedFile file) {
  return std::make_unique<ZstdStream>(std::move(file));
}

}  // namespace simurgh
