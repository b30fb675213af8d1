#pragma once

#include <cstdint>

namespace simurgh {

// Response of an embedding worker to a pull: pooled embeddings, or rows that the nn-worker pools.
enum class EmbeddingForm : uint8_t { kPooled, kRows };

}  // namespace simurgh
