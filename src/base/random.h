#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/hash.h"

namespace simurgh {

// SplitMix64: 64 bits of state, one mix per draw; the same sequence on every machine.
// Satisfies UniformRandomBitGenerator, but prefer the members: the standard's distributions differ
// between libraries.
//
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
// Threads: one owner.
class Random {
 public:
  using result_type = uint64_t;

  // Draw n, counted from 1, is Mix64(seed + n * kIncrement).
  static constexpr uint64_t kIncrement = 0x9e3779b97f4a7c15ULL;

  explicit constexpr Random(uint64_t seed) : state_(seed) {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }

  constexpr uint64_t operator()() {
    state_ += kIncrement;
    return Mix64(state_);
  }

  // Uniform in [0, 1), 53 bits.
  constexpr double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  // Uniform in [0, bound). Requires bound > 0.
  constexpr uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
  }

  // Standard normal, by Box and Muller, from two uniform draws.
  double Normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace simurgh
