#pragma once

#include <cstdint>

namespace simurgh {

constexpr bool IsPrime(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

// The smallest prime that is at least `number`; 1 for 1.
constexpr uint32_t PrimeFrom(uint32_t number) {
  while (!IsPrime(number)) ++number;
  return number;
}

}  // namespace simurgh
