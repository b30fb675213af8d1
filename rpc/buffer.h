#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>

namespace simurgh::rpc {

// Bytes that came in with what was asked for and have not been used yet. Fixed room.
class ReadAhead {
 public:
  static constexpr size_t kCapacity = 16'384;

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

// Places that are filled one behind the other, in pieces of any size.
class Places {
 public:
  explicit Places(std::vector<std::span<std::byte>> places) : places_(std::move(places)) {
    Advance(0);
  }

  bool full() const { return next_ == places_.size(); }

  // Room that is left.
  uint64_t left() const {
    uint64_t sum = 0;
    for (size_t i = next_; i < places_.size(); ++i) sum += places_[i].size();
    return sum;
  }

  void FillFrom(ReadAhead& source) {
    while (!full() && source.size() != 0) Advance(source.Take(places_[next_]));
  }

  // `count` bytes have been filled; returns those that lie behind the last place.
  size_t Advance(size_t count) {
    while (!full() && count >= places_[next_].size()) count -= places_[next_++].size();
    if (full()) return count;
    places_[next_] = places_[next_].subspan(count);
    return 0;
  }

  // The first places that are left, as many as fit into `gathered`; returns how many.
  size_t Gather(std::span<boost::asio::mutable_buffer> gathered) const {
    const size_t count = std::min(gathered.size(), places_.size() - next_);
    for (size_t i = 0; i < count; ++i) {
      const std::span<std::byte> place = places_[next_ + i];
      gathered[i] = {place.data(), place.size()};
    }
    return count;
  }

  // Whether Gather() with this many buffers reaches the last place.
  bool Fits(size_t buffers) const { return places_.size() - next_ <= buffers; }

 private:
  std::vector<std::span<std::byte>> places_;
  size_t next_ = 0;
};

}  // namespace simurgh::rpc
