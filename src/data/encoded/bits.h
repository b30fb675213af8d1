#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace simurgh {

static_assert(std::endian::native == std::endian::little, "batches are little-endian in memory");

// Most bits of one Put or Peek: what a word holds beside the rest of a byte.
inline constexpr int kMaxBits = 56;
// A writer stores whole words, so that this much must be writable behind its last bit.
inline constexpr size_t kBitSlackBytes = 8;

constexpr size_t BytesOfBits(uint64_t bits) { return (bits + 7) / 8; }

// Writes numbers of few bits one behind the other, least significant bit first.
//
// Threads: one owner.
class BitWriter {
 public:
  // Requires room for all bits and kBitSlackBytes more.
  explicit BitWriter(std::byte* out) : out_(out) {}

  // Requires count <= kMaxBits and value < 2^count.
  void Put(uint64_t value, int count) {
    word_ |= value << held_;
    held_ += count;
    std::memcpy(out_, &word_, sizeof(word_));
    out_ += held_ >> 3;
    word_ >>= held_ & ~7;  // At most 56 of the 63 bits that are held.
    held_ &= 7;
  }

 private:
  std::byte* out_;
  uint64_t word_ = 0;
  int held_ = 0;  // Bits of word_ that are not whole bytes yet.
};

// Reads what a BitWriter wrote. Behind the end are zeros; position() says whether it went there.
//
// Threads: one owner.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // The next bits, kMaxBits of them good, without taking them.
  uint64_t Peek() const {
    const uint64_t byte = position_ >> 3;
    uint64_t word = 0;
    if (byte + sizeof(word) <= bytes_.size()) [[likely]] {
      std::memcpy(&word, bytes_.data() + byte, sizeof(word));
    } else if (byte < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
    }
    return word >> (position_ & 7);
  }

  void Skip(int count) { position_ += count; }

  // Requires count <= kMaxBits.
  uint64_t Take(int count) {
    const uint64_t value = Peek() & ((uint64_t{1} << count) - 1);
    Skip(count);
    return value;
  }

  uint64_t position() const { return position_; }  // In bits.

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace simurgh
