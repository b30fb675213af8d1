#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace simurgh {

// Fields as bytes, the same on every machine: little-endian words, texts and lists with their
// length. What is hashed where configurations are compared.
class ByteWriter {
 public:
  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void Add(T value) {
    const auto word = static_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(word >> shift);
  }
  void Add(float value) { Add(std::bit_cast<uint32_t>(value)); }
  void Add(double value) { Add(std::bit_cast<uint64_t>(value)); }
  void Add(const std::string& text) {
    Add(text.size());
    bytes_ += text;
  }
  template <class T>
  void Add(const std::vector<T>& list) {
    Add(list.size());
    for (const T& one : list) Add(one);
  }
  template <class... Ts>
    requires(sizeof...(Ts) > 1)
  void Add(const Ts&... values) {
    (Add(values), ...);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace simurgh
