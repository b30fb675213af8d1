#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace simurgh {

// Writes a message in protobuf's wire format. Repeated fields are added once for each element.
// Source: https://protobuf.dev/programming-guides/encoding.
class ProtobufMessage {
 public:
  void AddInteger(uint32_t field, int64_t value) {
    AddTag(field, 0);
    AddVarint(static_cast<uint64_t>(value));
  }
  void AddFloat(uint32_t field, float value) {
    AddTag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
  }
  // Text, bytes, or the bytes of a message.
  void AddBytes(uint32_t field, std::string_view value) {
    AddTag(field, 2);
    AddVarint(value.size());
    bytes_ += value;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void AddTag(uint32_t field, uint32_t type) { AddVarint(uint64_t{field} << 3 | type); }
  void AddVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace simurgh
