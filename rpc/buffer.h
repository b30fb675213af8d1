#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "absl/container/inlined_vector.h"
#include <boost/asio/buffer.hpp>

#include "rpc/message.h"

namespace simurgh::rpc {

// Received bytes that have not been consumed. Fixed capacity.
class ReadAhead {
 public:
  static constexpr size_t kCapacity = 32'768;

  size_t size() const { return end_ - begin_; }
  std::span<const std::byte> bytes() const { return std::span(room_).subspan(begin_, size()); }

  // Space for `count` more bytes. Requires size() + count <= kCapacity.
  std::span<std::byte> Prepare(size_t count) {
    if (begin_ == end_) begin_ = end_ = 0;
    if (end_ + count > kCapacity) {
      std::memmove(room_.data(), room_.data() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return std::span(room_).subspan(end_, count);
  }

  // Appends the first `count` bytes of the prepared space.
  void Commit(size_t count) { end_ += count; }

  void Drop(size_t count) { begin_ += count; }

  // Moves min(size(), destination.size()) bytes and returns the count.
  size_t Take(std::span<std::byte> destination) {
    const size_t count = std::min(size(), destination.size());
    if (count != 0) std::memcpy(destination.data(), room_.data() + begin_, count);
    begin_ += count;
    return count;
  }

 private:
  std::array<std::byte, kCapacity> room_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// A sequence of buffers that is filled in order, in pieces of any size.
class ReceiveBuffers {
 public:
  using Spans = absl::InlinedVector<std::span<std::byte>, 2>;

  // Requires that none is empty.
  explicit ReceiveBuffers(Spans destinations) : destinations_(std::move(destinations)) {}

  bool full() const { return next_ == destinations_.size(); }

  // Takes at most `limit` bytes of `source` and returns the count.
  uint64_t FillFrom(ReadAhead& source, uint64_t limit) {
    uint64_t taken = 0;
    while (!full() && source.size() != 0 && taken < limit) {
      const std::span<std::byte> destination = destinations_[next_];
      const size_t count =
          source.Take(destination.first(std::min(destination.size(), limit - taken)));
      Advance(count);
      taken += count;
    }
    return taken;
  }

  // Skips `count` bytes, which have been filled. Requires enough space.
  void Advance(size_t count) {
    while (!full() && count >= destinations_[next_].size()) count -= destinations_[next_++].size();
    if (count != 0) destinations_[next_] = destinations_[next_].subspan(count);
  }

  // The next buffers, limited by the size of `gathered` and to `limit` bytes.
  struct Gathered {
    size_t buffers = 0;
    uint64_t bytes = 0;
  };
  Gathered Gather(std::span<boost::asio::mutable_buffer> gathered, uint64_t limit) const {
    Gathered result;
    const size_t most = std::min(destinations_.size() - next_, gathered.size());
    while (result.buffers < most && result.bytes < limit) {
      const std::span<std::byte> destination = destinations_[next_ + result.buffers];
      const size_t bytes = std::min<uint64_t>(destination.size(), limit - result.bytes);
      gathered[result.buffers++] = {destination.data(), bytes};
      result.bytes += bytes;
    }
    return result;
  }

 private:
  Spans destinations_;
  size_t next_ = 0;
};

// memcpy with prefetching for memory that another core has written.
// Requires to.size() >= from.size() and no overlap.
void CopyPayload(std::span<std::byte> to, std::span<const std::byte> from);

// `bytes` bytes of the process-wide pool, 64-byte aligned. Threads: any.
SegmentBuffer PooledBuffer(size_t bytes);

}  // namespace simurgh::rpc
