#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct XXH3_state_s;

namespace simurgh {

// A bijection of 64-bit words whose every output bit depends on every input bit.
// Source: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; constants by Stafford).
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Returns the word that Mix64() maps to x.
constexpr uint64_t Unmix64(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3ULL;
  x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089ULL;
  return x ^ (x >> 30) ^ (x >> 60);
}

// XXH3, 64 bits, seeded: the stable hash of strings to ids. Its values are part of the data format.
// Source: https://github.com/Cyan4973/xxHash, specification of XXH3.
uint64_t HashBytes(std::string_view bytes, uint64_t seed = 0);

// HashBytes, with seed 0, of bytes that arrive in pieces. Threads: one owner.
class ByteHasher {
 public:
  ByteHasher();

  void Update(std::span<const std::byte> bytes);
  // The hash of all bytes since the last call.
  uint64_t Finish();

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

}  // namespace simurgh
