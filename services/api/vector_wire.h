#pragma once

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/table/partition.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// The configured encoding of embeddings and gradients.
EmbeddingWire WireOf(const ClusterConfig& config);

// Converts a trainer's vectors to and from the precision of the wire. A buffer already in that
// precision is used directly; f32 buffers are converted.
//
// Threads: any.
class VectorWire {
 public:
  explicit VectorWire(const ClusterConfig& config);

  // Returns the receive buffer of a pull into `embeddings`. If decodes(embeddings), call Decode
  // after the pull. Requires embeddings as EmbeddingPort::Pull.
  EmbeddingBuffer BufferFor(const EmbeddingBuffer& embeddings);
  bool decodes(const EmbeddingBuffer& embeddings) const {
    return embeddings.precision != embeddings_.precision();
  }
  void Decode(const EmbeddingBuffer& buffer, const EmbeddingBuffer& embeddings) const;

  // Memory for the argmax of a pull into `buffer`, of BufferFor.
  // Errors: INTERNAL for more bytes than the buffer's samples can have.
  StatusOr<std::shared_ptr<AlignedBuffer>> LeaseArgmax(const EmbeddingBuffer& buffer, size_t bytes);

  // Whether Encode converts.
  bool encodes(const GradientBuffer& gradients) const {
    return gradients.precision != gradients_.precision();
  }
  // int8 rounds stochastically, keyed by the configured seed, the step id's rank and step, and the
  // row, so a repeated push is identical.
  // Requires gradients in f32 with scale 1, or in the precision of the wire.
  GradientBuffer Encode(const GradientBuffer& gradients, const StepId& step_id);

 private:
  const EmbeddingWire wire_;
  const VectorCodec embeddings_;
  const VectorCodec gradients_;
  const size_t max_columns_;  // Columns of max-pooled features.
  BufferPool buffers_;
};

}  // namespace simurgh
