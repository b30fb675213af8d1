#pragma once

#include <cstddef>
#include <memory>

#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// The memory of one batch on its way to a network and back, of the kind that the network's device
// copies fastest. Both matrices have no gaps.
//
// Threads: one at a time.
class BatchBlock {
 public:
  virtual ~BatchBlock() = default;

  // (B, embedding width), to be filled before the network sees the block.
  MatrixView<float> embeddings;
  // (B, embedding width), filled by the network; empty in a block without them.
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
