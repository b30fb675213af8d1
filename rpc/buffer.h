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

namespace simurgh::rpc {

// Bytes that came in with what was asked for and have not been used yet. Fixed room.
class ReadAhead {
 public:
  static constexpr size_t kCapacity = 32'768;

  size_t size() const { return end_ - begin_; }
  std::span<const std::byte> bytes() const { return std::span(room_).subspan(begin_, size()); }

  // Room for `count` more bytes behind those buffered. Requires size() + count <= kCapacity.
  std::span<std::byte> Prepare(size_t count) {
    if (begin_ == end_) begin_ = end_ = 0;
    if (end_ + count > kCapacity) {
      std::memmove(room_.data(), room_.data() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return std::span(room_).subspan(end_, count);
  }

  // `count` bytes of the room prepared have been filled.
  void Commit(size_t count) { end_ += count; }

  void Drop(size_t count) { begin_ += count; }

  // Moves as many bytes as there are, at most what fits; returns how many.
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

// Destinations that are filled one behind the other, in pieces of any size.
class Destinations {
 public:
  using Spans = absl::InlinedVector<std::span<std::byte>, 2>;

  // Requires that none is empty.
  explicit Destinations(Spans places) : places_(std::move(places)) {}

  bool full() const { return next_ == places_.size(); }

  // Takes at most `limit` bytes from there; returns how many.
  uint64_t FillFrom(ReadAhead& source, uint64_t limit) {
    uint64_t taken = 0;
    while (!full() && source.size() != 0 && taken < limit) {
      const std::span<std::byte> place = places_[next_];
      const size_t count = source.Take(place.first(std::min(place.size(), limit - taken)));
      Advance(count);
      taken += count;
    }
    return taken;
  }

  // `count` bytes have been filled. Requires room for them.
  void Advance(size_t count) {
    while (!full() && count >= places_[next_].size()) count -= places_[next_++].size();
    if (count != 0) places_[next_] = places_[next_].subspan(count);
  }

  // The next places as far as they fit into `gathered` and hold `limit` bytes.
  struct Gathered {
    size_t buffers = 0;
    uint64_t bytes = 0;
  };
  Gathered Gather(std::span<boost::asio::mutable_buffer> gathered, uint64_t limit) const {
    Gathered result;
    const size_t most = std::min(places_.size() - next_, gathered.size());
    while (result.buffers < most && result.bytes < limit) {
      const std::span<std::byte> place = places_[next_ + result.buffers];
      const size_t bytes = std::min<uint64_t>(place.size(), limit - result.bytes);
      gathered[result.buffers++] = {place.data(), bytes};
      result.bytes += bytes;
    }
    return result;
  }

 private:
  Spans places_;
  size_t next_ = 0;
};

}  // namespace simurgh::rpc
