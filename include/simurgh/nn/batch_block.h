#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "simurgh/config/embedding_form.h"
#include "simurgh/config/vector_precision.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// The memory of one batch on its way to a network and back, of the kind that the network's device
// copies fastest.
//
// Threads: one at a time.
class BatchBlock {
 public:
  virtual ~BatchBlock() = default;

  // Rows of all samples, as VectorCodec has them in the precision. Of embeddings also the rows of
  // the batch's ids, as RowCodec has them, which the network pools.
  struct Coded {
    VectorPrecision precision = VectorPrecision::kF32;
    std::span<std::byte> bytes;
    EmbeddingForm form = EmbeddingForm::kPooled;
  };

  // To be filled before the network sees the block.
  Coded coded_embeddings;
  // Filled by the network, which multiplies them by the factor; empty in a block without them.
  Coded coded_gradients;
  float gradient_factor = 1;
  // Of gradients in int8. The seed is the network's; step and first row are to be filled before it
  // sees the block.
  RoundingKey rounding;

  std::shared_ptr<const CompactBatch> ids;  // Of a block of rows; else null.

  // The same memory where it is of samples in f32, (B, embedding width) without gaps; else empty.
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

  // For pooled embeddings of so many samples.
  virtual std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) = 0;

  // For the batch's rows where the wire carries rows, else for its pooled embeddings.
  virtual std::shared_ptr<BatchBlock> LeaseFor(std::shared_ptr<const CompactBatch> ids,
                                               bool with_gradients) {
    return Lease(ids->batch_size, with_gradients);
  }
};

// Blocks in ordinary memory. Those of rows, where the wire has any, have f32 embeddings beside.
std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire = {});

}  // namespace simurgh
