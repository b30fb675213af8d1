#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/feature/vector_code.h"
#include "simurgh/table/partition.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// Where an embedding worker puts the embeddings of a batch: its samples' rows as VectorCode has
// them. At a multiple of 4 bytes.
struct EmbeddingTarget {
  EmbeddingTarget(VectorPrecision as, std::span<std::byte> to, std::shared_ptr<void> keeper)
      : precision(as), bytes(to), owner(std::move(keeper)) {}
  // f32 into a matrix without gaps.
  EmbeddingTarget(MatrixView<float> matrix, std::shared_ptr<void> keeper)
      : bytes(std::as_writable_bytes(matrix.flat())), owner(std::move(keeper)) {}

  VectorPrecision precision = VectorPrecision::kF32;
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

// Gradients of the embeddings, likewise.
struct GradientSource {
  GradientSource(VectorPrecision as, float times, std::span<const std::byte> from,
                 std::shared_ptr<const void> keeper)
      : precision(as), scale(times), bytes(from), owner(std::move(keeper)) {}
  // f32 from a matrix without gaps.
  GradientSource(MatrixView<const float> matrix, std::shared_ptr<const void> keeper)
      : bytes(std::as_bytes(matrix.flat())), owner(std::move(keeper)) {}

  VectorPrecision precision = VectorPrecision::kF32;
  float scale = 1;  // What they have been multiplied by; above 0.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// A trainer's end of the way between its matrices and embedding workers, in the precisions of the
// configuration. f32 travels from and to the matrices themselves.
//
// Threads: any.
class VectorWire {
 public:
  explicit VectorWire(const ClusterConfig& config);

  // For a pull into the matrix, which then takes Decode; matrices have no gaps.
  EmbeddingTarget TargetFor(MatrixView<float> embeddings, std::shared_ptr<void> owner);
  // Whether Decode has anything to do.
  bool decodes() const { return embeddings_.precision() != VectorPrecision::kF32; }
  void Decode(const EmbeddingTarget& target, MatrixView<float> embeddings) const;

  // Whether Encode has anything to do but to point at the matrix.
  bool encodes() const { return gradients_.precision() != VectorPrecision::kF32; }
  // int8 are rounded by chance, keyed by the configuration's seed, the position's rank and step,
  // and the row: a repeated push is the same.
  GradientSource Encode(MatrixView<const float> gradients, std::shared_ptr<const void> owner,
                        const TrainerPosition& position);

 private:
  const VectorCode embeddings_;
  const VectorCode gradients_;
  const float scale_;
  const uint64_t seed_;
  BufferPool buffers_;
};

}  // namespace simurgh
