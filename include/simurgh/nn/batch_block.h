#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "simurgh/config/embedding_form.h"
#include "simurgh/data/batch.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// Memory for one batch's embeddings and their gradients, of the kind that the network's device
// copies fastest.
//
// Threads: one at a time.
class BatchBlock {
 public:
  virtual ~BatchBlock() = default;

  // Pooled vectors of all samples, encoded by VectorCodec; or, for embeddings, the rows of the
  // batch's ids, encoded by RowCodec, which the network pools.
  struct Encoded {
    VectorPrecision precision = VectorPrecision::kF32;
    std::span<std::byte> bytes;
    EmbeddingForm form = EmbeddingForm::kPooled;
  };

  // Input: set before the block is passed to the network.
  Encoded encoded_embeddings;
  // Output: gradients times gradient_factor; empty in a block without gradients.
  Encoded encoded_gradients;
  float gradient_factor = 1;
  // For int8 gradients. The network sets the seed, the caller the step and the first row.
  RoundingKey rounding;

  std::shared_ptr<const CompactBatch> ids;  // Ids of a block of rows; else null.

  // Contiguous (B, embedding width) views of f32 embeddings and gradients; else empty.
  MatrixView<float> embeddings;
  MatrixView<float> gradients;
};

// Leases blocks and reuses their memory when their last owners have released them.
//
// Threads: any. Lifetime: blocks may outlive the pool.
class BlockPool {
 public:
  virtual ~BlockPool() = default;

  // A block for pooled embeddings of `rows` samples.
  virtual std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) = 0;

  // A block for the batch's rows if the wire carries rows, else for its pooled embeddings.
  virtual std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                               bool with_gradients) {
    return Lease(ids->batch_size, with_gradients);
  }
};

// Blocks in ordinary memory, in the precisions of the wire; without dims, all are f32. Blocks of
// rows also have f32 embeddings.
std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire = {});

}  // namespace simurgh
