#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "simurgh/config/vector_precision.h"
#include "simurgh/data/vector_code.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// The memory of one batch on its way to a network and back, of the kind that the network's device
// copies fastest.
//
// Threads: one at a time.
class BatchBlock {
 public:
  virtual ~BatchBlock() = default;

  // Rows of all samples, as VectorCode has them in the precision.
  struct Coded {
    VectorPrecision precision = VectorPrecision::kF32;
    std::span<std::byte> bytes;
  };

  // To be filled before the network sees the block.
  Coded coded_embeddings;
  // Filled by the network, which multiplies them by the factor; empty in a block without them.
  Coded coded_gradients;
  float gradient_factor = 1;
  // Of gradients in int8. The seed is the network's; step and first row are to be filled before it
  // sees the block.
  RoundingKey rounding;

  // The same memory where the precision is f32, (B, embedding width) without gaps; else empty.
  MatrixView<float> embeddings;
  MatrixView<float> gradients;
};

// Gives blocks, and gives them again when their last owners have let them go: memory is asked for
// only while more blocks, or larger ones, are under way than ever before.
//
// Threads: any. Lifetime: blocks may outlive the pool.
class BlockPool {
 public:
  virtual ~BlockPool() = default;

  // For a batch of so many samples.
  virtual std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) = 0;
};

// Blocks in ordinary memory.
std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width);

}  // namespace simurgh
