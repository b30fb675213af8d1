#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/embedding_form.h"
#include "data/batch/batch.h"
#include "embedding/vector_codec.h"
#include "nn/model.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Memory for one batch's embeddings and their gradients, of the kind that the network's device
// copies fastest.
//
// Threads: one at a time.
class BatchBlock {
 public:
  virtual ~BatchBlock() = default;

  // Pooled vectors of all samples, encoded by VectorCodec; or the rows of the batch's ids, in the
  // order of RowCodec. The network pools rows, and sums their gradients.
  struct Encoded {
    VectorPrecision precision = VectorPrecision::kF32;
    std::span<std::byte> bytes;
    EmbeddingForm form = EmbeddingForm::kPooled;
  };

  // Input, set before the block is passed to the network.
  Encoded encoded_embeddings;
  // Output: gradients times gradient_factor; empty in a block without gradients.
  Encoded encoded_gradients;
  float gradient_factor = 1;
  // Rounding of int8 gradients. The network sets the seed, the caller the step and the first row.
  RoundingKey rounding;

  std::shared_ptr<const CompactBatch> ids;  // Ids of a block of rows; else null.

  // Contiguous (B, embedding width) views of f32 embeddings and gradients; else empty. Those of
  // gradients of rows are in memory of their own.
  MatrixView<float> embeddings;
  MatrixView<float> gradients;
};

// Leases blocks and reuses their memory when their last owners have released them.
//
// Threads: any. Lifetime: blocks may outlive the pool.
class BlockPool {
 public:
  virtual ~BlockPool() = default;

  // Returns a block for pooled embeddings of `rows` samples.
  virtual std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) = 0;

  // Returns a block for the batch's rows if the wire carries its rows, else for its pooled
  // embeddings.
  virtual std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                               bool with_gradients) {
    return Lease(ids->batch_size, with_gradients);
  }
};

// Returns a pool of blocks in ordinary memory, in the precisions of the wire; without dims, all are
// f32. Blocks of rows also have f32 embeddings.
std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire = {});

// The Euclidean lengths of a feature's embeddings, one for each sample.
struct FeatureNorms {
  std::string feature;
  std::vector<float> norms;
};

// Looks at the embeddings of blocks. Without features, finds nothing.
//
// Threads: immutable.
class EmbeddingCheck {
 public:
  EmbeddingCheck() = default;
  // features: side by side in the embeddings. wire: the wire of the network's blocks.
  EmbeddingCheck(std::vector<ModelInputs::Feature> features, EmbeddingWire wire);

  size_t features() const { return features_.size(); }

  // Adds 1 to the count of each feature that has a NaN or an infinity in a block's embeddings.
  // Requires a block that the network has computed. Shape: counts (features).
  void Count(const BatchBlock& block, size_t samples, std::span<double> counts) const;

  // Adds, for each feature, the samples with ids to counts[f], and those of them whose embeddings
  // are all zero to counts[features() + f]: training has seen none of their ids. Requires a block
  // that the network has computed; adds nothing if only a device has its embeddings.
  void CountUnseen(const BatchBlock& block, const CompactBatch& ids,
                   std::span<double> counts) const;

  // Returns the norms of a block's embeddings. Requires a block that the network has computed.
  std::vector<FeatureNorms> Norms(const BatchBlock& block, size_t samples) const;

  // Returns the names of the features whose count is above 0, separated by commas.
  std::string Names(std::span<const double> counts) const;
  // Returns Names() as part of an error, with the remedy. Empty if there are none.
  std::string Problem(std::span<const double> counts) const;

 private:
  // Calls visit(index of the feature, its embeddings) for each feature.
  template <typename Visit>
  void ForEach(const BatchBlock& block, size_t samples, const Visit& visit) const;

  std::vector<ModelInputs::Feature> features_;
  EmbeddingWire wire_;
  size_t width_ = 0;
};

}  // namespace simurgh
