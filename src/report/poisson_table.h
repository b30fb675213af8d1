#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simurgh {

// Returns the value of a Poisson variable of mean 1 for each 16 bits.
inline std::vector<uint8_t> PoissonTable() {
  constexpr size_t kValues = size_t{1} << 16;
  std::vector<uint8_t> table(kValues);
  double probability = std::exp(-1.0);
  double sum = probability;
  uint8_t count = 0;
  for (size_t value = 0; value < kValues; ++value) {
    while ((static_cast<double>(value) + 0.5) / kValues > sum) {
      probability /= ++count;
      sum += probability;
    }
    table[value] = count;
  }
  return table;
}

}  // namespace simurgh
