#include "services/api/vector_wire.h"

#include <utility>

#include "services/api/layout.h"

namespace simurgh {
namespace {

// Idle memory kept for coded matrices.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

}  // namespace

VectorWire::VectorWire(const ClusterConfig& config)
    : embeddings_(config.training.embedding_precision, LayoutOf(config).vector_dims()),
      gradients_(config.training.gradient_precision, LayoutOf(config).vector_dims()),
      scale_(gradients_.precision() == VectorPrecision::kF16 ? config.training.gradient_scale
                                                             : 1.0F),
      seed_(config.seed),
      buffers_(kIdleBufferBytes) {}

EmbeddingTarget VectorWire::TargetFor(MatrixView<float> embeddings, std::shared_ptr<void> owner) {
  if (!decodes()) return {embeddings, std::move(owner)};
  const size_t bytes = embeddings.rows() * embeddings_.row_bytes();
  auto buffer = buffers_.Lease(bytes);
  const std::span<std::byte> room = buffer->bytes().first(bytes);
  return {embeddings_.precision(), room, std::move(buffer)};
}

void VectorWire::Decode(const EmbeddingTarget& target, MatrixView<float> embeddings) const {
  if (decodes()) embeddings_.Decode(target.bytes, /*factor=*/1, embeddings);
}

GradientSource VectorWire::Encode(MatrixView<const float> gradients,
                                  std::shared_ptr<const void> owner,
                                  const TrainerPosition& position) {
  if (!encodes()) return {gradients, std::move(owner)};
  const size_t bytes = gradients.rows() * gradients_.row_bytes();
  auto buffer = buffers_.Lease(bytes);
  const std::span<std::byte> room = buffer->bytes().first(bytes);
  const RoundingKey key{
      .seed = seed_, .step = position.step, .first_row = uint64_t{position.rank} << 32};
  gradients_.Encode(gradients, scale_, key, room);
  return {gradients_.precision(), scale_, room, std::move(buffer)};
}

}  // namespace simurgh
