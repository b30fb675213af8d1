#pragma once

#include <cstdint>

namespace simurgh {

// Response of an embedding worker to a pull: pooled embeddings, or rows that the nn-worker pools.
enum class EmbeddingForm : uint8_t { kPooled, kRows };

// Precision of embeddings and their gradients between nn-worker and embedding worker. kInt8 has a
// scale for each vector.
enum class VectorPrecision : uint8_t { kF32, kBf16, kF16, kInt8 };

}  // namespace simurgh
