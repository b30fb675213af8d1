#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simurgh/base/hash.h"

namespace simurgh {

// Stable 64-bit hashes of what cells hold: token of the data format, the same on every machine.
//
// Seeds are mixed first: XXH3 only adds them to short inputs, so that small ones would let "1" and
// "2" change places. Mixing leaves seed 0 what it is.

inline uint64_t HashText(std::string_view text, uint64_t seed) {
  return HashBytes(text, Mix64(seed));
}

// A bijection for each seed: integers never collide.
inline uint64_t HashInteger(uint64_t value, uint64_t seed) { return Mix64(value + Mix64(seed)); }

// Of ids together, in their order: XXH3 of their little-endian bytes.
inline uint64_t CrossIds(std::span<const uint64_t> ids, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}, Mix64(seed));
}

}  // namespace simurgh
