#pragma once

#include <cstdint>

namespace simurgh {

// How numbers of embeddings, or of their gradients, travel between nn-worker and embedding worker.
// kInt8 has a scale for each vector.
enum class VectorPrecision : uint8_t { kF32, kBf16, kF16, kInt8 };

// What a vector of so many numbers takes; that of kInt8 has its scale at a multiple of 4.
constexpr uint64_t VectorBytes(VectorPrecision precision, uint64_t numbers) {
  if (precision == VectorPrecision::kF32) return 4 * numbers;
  if (precision != VectorPrecision::kInt8) return 2 * numbers;
  return (numbers + 3) / 4 * 4 + 4;
}

}  // namespace simurgh
