#pragma once

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/table/partition.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// How the cluster's embeddings and gradients travel, as its configuration says.
EmbeddingWire WireOf(const ClusterConfig& config);

// A trainer's end of the way between its memory and embedding workers. What its memory holds as it
// travels goes from and to there; f32 is converted where something else travels.
//
// Threads: any.
class VectorWire {
 public:
  explicit VectorWire(const ClusterConfig& config);

  // For a pull into `wanted`, which then takes Decode, if it decodes.
  // Requires wanted to be as EmbeddingPort::Pull does.
  EmbeddingBuffer TargetFor(const EmbeddingBuffer& wanted);
  bool decodes(const EmbeddingBuffer& wanted) const {
    return wanted.precision != embeddings_.precision();
  }
  void Decode(const EmbeddingBuffer& target, const EmbeddingBuffer& wanted) const;

  // Memory for the argmax that come with a pull into `target`, of TargetFor.
  // Errors: INTERNAL for more bytes than the batch's samples can have.
  StatusOr<std::shared_ptr<AlignedBuffer>> RoomForArgmax(const EmbeddingBuffer& target,
                                                         size_t bytes);

  // Whether Encode has anything to do but to pass on what is given.
  bool encodes(const GradientBuffer& given) const {
    return given.precision != gradients_.precision();
  }
  // int8 are rounded by chance, keyed by the configuration's seed, the position's rank and step,
  // and the row: a repeated push is the same.
  // Requires `given` to be f32 and multiplied by nothing, or as gradients travel.
  GradientBuffer Encode(const GradientBuffer& given, const StepId& position);

 private:
  const EmbeddingWire wire_;
  const VectorCodec embeddings_;
  const VectorCodec gradients_;
  const size_t max_columns_;  // Of the features that are pooled by max.
  BufferPool buffers_;
};

}  // namespace simurgh
