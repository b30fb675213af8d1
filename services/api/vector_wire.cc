#include "services/api/vector_wire.h"

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {
namespace {

// Idle memory kept for encoded matrices.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

}  // namespace

EmbeddingWire WireOf(const ClusterConfig& config) {
  const TrainingConfig& training = config.training;
  const bool is_f16 = training.gradient_precision == VectorPrecision::kF16;
  const BatchLayout layout = LayoutOf(config);
  const bool as_rows = training.embeddings == EmbeddingForm::kRows;
  return {.dims = layout.vector_dims(),
          .embeddings = training.embedding_precision,
          .gradients = training.gradient_precision,
          .gradient_factor = is_f16 ? training.gradient_scale : 1.0F,
          .seed = config.seed,
          .rows = as_rows ? layout.rows() : std::vector<FeatureRows>()};
}

VectorWire::VectorWire(const ClusterConfig& config)
    : wire_(WireOf(config)),
      embeddings_(wire_.embeddings, wire_.dims),
      gradients_(wire_.gradients, wire_.dims),
      max_columns_(LayoutOf(config).max_columns()),
      buffers_(kIdleBufferBytes) {}

EmbeddingBuffer VectorWire::BufferFor(const EmbeddingBuffer& embeddings) {
  if (!decodes(embeddings)) return embeddings;
  SIMURGH_CHECK(wire_.rows.empty());
  const size_t rows = embeddings.floats().size() / embeddings_.columns();
  const size_t bytes = rows * embeddings_.row_bytes();
  auto buffer = buffers_.Lease(bytes);
  const std::span<std::byte> room = buffer->bytes().first(bytes);
  return {embeddings_.precision(), room, std::move(buffer)};
}

void VectorWire::Decode(const EmbeddingBuffer& buffer, const EmbeddingBuffer& embeddings) const {
  if (!decodes(embeddings)) return;
  const std::span<float> floats = embeddings.floats();
  const size_t columns = embeddings_.columns();
  embeddings_.Decode(buffer.bytes, /*factor=*/1, {floats.data(), floats.size() / columns, columns});
}

StatusOr<std::shared_ptr<AlignedBuffer>> VectorWire::LeaseArgmax(const EmbeddingBuffer& buffer,
                                                                 size_t bytes) {
  const size_t max = max_columns_ == 0 ? 0
                                       : buffer.bytes.size() / embeddings_.row_bytes() *
                                             max_columns_ * kMaxArgmaxBytes;
  if (bytes > max) {
    return absl::InternalError(
        absl::StrCat("pull: ", bytes, " bytes of argmax, the batch has at most ", max));
  }
  return buffers_.Lease(bytes);
}

GradientBuffer VectorWire::Encode(const GradientBuffer& gradients, const StepId& step_id) {
  if (!encodes(gradients)) return gradients;
  SIMURGH_CHECK_EQ(gradients.scale, 1.0F);
  const std::span<const float> floats = gradients.floats();
  const size_t columns = gradients_.columns();
  const size_t rows = floats.size() / columns;
  const size_t bytes = rows * gradients_.row_bytes();
  auto buffer = buffers_.Lease(bytes);
  const std::span<std::byte> room = buffer->bytes().first(bytes);
  const RoundingKey key{
      .seed = wire_.seed, .step = step_id.step, .first_row = FirstRowOf(step_id.rank)};
  gradients_.Encode({floats.data(), rows, columns}, wire_.gradient_factor, key, room);
  GradientBuffer encoded(gradients_.precision(), wire_.gradient_factor, room, std::move(buffer));
  encoded.argmax = gradients.argmax;
  return encoded;
}

}  // namespace simurgh
