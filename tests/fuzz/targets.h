#pragma once

// What is fuzzed: everything that reads bytes of a peer, a client or a checkpoint.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace simurgh::fuzz {

using Input = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;

inline Bytes ToBytes(Input input) { return {input.begin(), input.end()}; }

inline bool SameFloat(float one, float other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

struct Target {
  std::string_view name;
  // Aborts when something is wrong that a sanitizer does not see.
  void (*run)(Input input);
  // Inputs of the real encoders, to begin with.
  std::vector<Bytes> (*seeds)();
};

// Defined in <what>_targets.cc.
std::vector<Target> ArrowTargets();
std::vector<Target> FrameTargets();
std::vector<Target> ConversationTargets();
std::vector<Target> DataTargets();
std::vector<Target> DenseTargets();
std::vector<Target> RowTargets();
std::vector<Target> BatchTargets();
std::vector<Target> LoaderTargets();
std::vector<Target> ModelTargets();
std::vector<Target> ServedRowTargets();
std::vector<Target> ServingTargets();

// Takes an input apart, in the order in which SeedWriter put it together. An input that is too
// short reads as zeros and empty parts.
class SeedReader {
 public:
  explicit SeedReader(Input input) : rest_(input) {}

  template <typename T>
  T Value() {
    T value{};
    const Input bytes = Take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // A copy of bytes prefixed with their length, aligned like received metadata.
  Bytes Part() { return ToBytes(Take(Value<uint16_t>())); }
  Input rest() const { return rest_; }

 private:
  Input Take(size_t count) {
    const Input taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  Input rest_;
};

class SeedWriter {
 public:
  template <typename T>
  SeedWriter& Value(const T& value) {
    return Rest(std::as_bytes(std::span(&value, 1)));
  }
  // Truncated to the largest length.
  SeedWriter& Part(Input part) {
    part = part.first(std::min<size_t>(part.size(), 0xffff));
    Value(static_cast<uint16_t>(part.size()));
    return Rest(part);
  }
  SeedWriter& Rest(Input bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace simurgh::fuzz
