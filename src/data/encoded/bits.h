#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace simurgh {

static_assert(std::endian::native == std::endian::little, "batches are little-endian");

// Most bits of one Put or Peek: a word less a partial byte.
inline constexpr int kMaxBits = 56;
// Writable bytes that a writer needs after its last bit, because it stores whole words.
inline constexpr size_t kBitSlackBytes = 8;

constexpr size_t BytesOfBits(uint64_t bits) { return (bits + 7) / 8; }

// Writes numbers of few bits consecutively, least significant bit first.
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
    word_ >>= held_ & ~7;  // By at most 56 bits.
    held_ &= 7;
  }

 private:
  std::byte* out_;
  uint64_t word_ = 0;
  int held_ = 0;  // Number of bits in word_ that are no whole byte yet.
};

// Reads the bits of a BitWriter. Bits after the end are zeros; position() then exceeds the size.
//
// Threads: one owner.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // The next bits, of which kMaxBits are valid. Does not advance.
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
