#include "services/runtime/gzip_body.h"

#include <algorithm>
#include <utility>

#include <zlib.h>

#include "base/check.h"

namespace simurgh {
namespace {

constexpr int kGzipWrapper = 16;  // Added to the window size: expect gzip's header, not zlib's.
constexpr size_t kLeastRoom = 16 * 1024;

}  // namespace

struct GzipBody::State {
  State() {
    SIMURGH_CHECK(inflateInit2(&inflater, MAX_WBITS + kGzipWrapper) == Z_OK) << "out of memory";
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&inflater); }

  z_stream inflater{};
  bool is_whole = true;
};

GzipBody::GzipBody(size_t limit) : limit_(limit), state_(std::make_unique<State>()) {}
GzipBody::~GzipBody() = default;

bool GzipBody::is_whole() const { return state_->is_whole; }

GzipBody::Result GzipBody::Take(std::string_view bytes) {
  z_stream& inflater = state_->inflater;
  inflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  inflater.avail_in = static_cast<uInt>(bytes.size());
  while (inflater.avail_in > 0 || !state_->is_whole) {
    if (inflater.avail_in > 0 && std::exchange(state_->is_whole, false)) inflateReset(&inflater);
    const size_t before = text_.size();
    // One byte more than the limit shows that there are more.
    const size_t room = std::min(std::max(before, kLeastRoom), limit_ + 1 - before);
    text_.resize(before + room);
    inflater.next_out = reinterpret_cast<Bytef*>(text_.data() + before);
    inflater.avail_out = static_cast<uInt>(room);
    const int result = inflate(&inflater, Z_NO_FLUSH);
    text_.resize(before + room - inflater.avail_out);
    if (text_.size() > limit_) {
      text_.resize(limit_);
      return Result::kTooLarge;
    }
    if (result == Z_STREAM_END) {
      state_->is_whole = true;
    } else if (result == Z_BUF_ERROR || (result == Z_OK && inflater.avail_out > 0)) {
      break;  // The decoder needs more input.
    } else if (result != Z_OK) {
      return Result::kDamaged;
    }
  }
  return Result::kOk;
}

}  // namespace simurgh
