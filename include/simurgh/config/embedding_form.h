#pragma once

#include <cstdint>

namespace simurgh {

// What an embedding worker answers to a pull: embeddings that it has pooled, or the batch's rows,
// which the nn-worker pools.
enum class EmbeddingForm : uint8_t { kPooled, kRows };

}  // namespace simurgh
