#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace simurgh {

// Appends bytes, raw words and numbers of variable length. LEB128: seven bits a byte, the lowest
// first; the eighth is set in all bytes but the last.
class ByteWriter {
 public:
  void Byte(uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // Room for `count` bytes, zeros; valid until the next call.
  std::byte* Extend(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return bytes_.data() + bytes_.size() - count;
  }
  void Reserve(size_t count) { bytes_.reserve(count); }
  void Shorten(size_t count) { bytes_.resize(bytes_.size() - count); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads the bytes of a ByteWriter. A read past the end returns 0 or nothing and makes `ok` false
// permanently, so callers may check once after several reads.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  uint8_t Byte() {
    const auto taken = Raw(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  uint64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;  // Longer than any 64-bit number.
    return 0;
  }
  std::span<const std::byte> Raw(size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  // All that has not been read.
  std::span<const std::byte> Rest() const { return rest_; }

  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace simurgh
