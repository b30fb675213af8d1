#pragma once

#include <cstdint>

namespace simurgh {

// Precision of embeddings and their gradients between nn-worker and embedding worker. kInt8 has a
// scale for each vector.
enum class VectorPrecision : uint8_t { kF32, kBf16, kF16, kInt8 };

}  // namespace simurgh
