#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simurgh/base/hash.h"

namespace simurgh {

// Stable 64-bit hashes of values: part of the data format, equal on every machine.
//
// Seeds are mixed first, because XXH3 only adds them to short inputs: small seeds would swap the
// hashes of "1" and "2". Mixing leaves seed 0 unchanged.

inline uint64_t HashText(std::string_view text, uint64_t seed) {
  return HashBytes(text, Mix64(seed));
}

// A bijection for each seed: integers never collide.
inline uint64_t HashInteger(uint64_t value, uint64_t seed) { return Mix64(value + Mix64(seed)); }

// Hash of ids in this order: XXH3 of their little-endian bytes.
inline uint64_t CrossIds(std::span<const uint64_t> ids, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}, Mix64(seed));
}

}  // namespace simurgh
