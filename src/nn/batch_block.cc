#include "simurgh/nn/batch_block.h"

#include <utility>

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/data/row_codec.h"

namespace simurgh {
namespace {

// Idle memory kept for later batches.
constexpr size_t kIdleBytes = size_t{1} << 30;

struct OrdinaryBlock final : BatchBlock {
  std::shared_ptr<AlignedBuffer> memory;
  size_t matrix_bytes = 0;  // Bytes of embeddings and gradients.
};

class OrdinaryPool final : public BlockPool {
 public:
  OrdinaryPool(size_t embedding_width, const EmbeddingWire& wire)
      : width_(embedding_width), rows_(wire.embeddings, wire.rows), buffers_(kIdleBytes) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return LeaseWithRows(rows, with_gradients, 0);
  }

  std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                       bool with_gradients) override {
    if (rows_.features().empty()) return Lease(ids->batch_size, with_gradients);
    const size_t bytes = rows_.bytes(*ids);
    auto block = LeaseWithRows(ids->batch_size, with_gradients, bytes);
    block->encoded_embeddings = {
        .precision = rows_.precision(),
        .bytes = block->memory->bytes().subspan(block->matrix_bytes, bytes),
        .form = EmbeddingForm::kRows};
    block->ids = ids;
    return block;
  }

 private:
  // One buffer for the matrices, each aligned to a cache line, followed by the rows.
  std::shared_ptr<OrdinaryBlock> LeaseWithRows(size_t rows, bool with_gradients, size_t row_bytes) {
    auto block = std::make_shared<OrdinaryBlock>();
    constexpr size_t kLine = kBufferAlignment;
    const size_t matrix = (rows * width_ * sizeof(float) + kLine - 1) / kLine * kLine;
    block->matrix_bytes = matrix * (with_gradients ? 2 : 1);
    block->memory = buffers_.Lease(block->matrix_bytes + row_bytes);
    const auto matrix_at = [&](size_t byte) {
      return MatrixView<float>(reinterpret_cast<float*>(block->memory->data() + byte), rows,
                               width_);
    };
    block->embeddings = matrix_at(0);
    block->encoded_embeddings.bytes = std::as_writable_bytes(block->embeddings.flat());
    if (with_gradients) {
      block->gradients = matrix_at(matrix);
      block->encoded_gradients.bytes = std::as_writable_bytes(block->gradients.flat());
    }
    return block;
  }

  const size_t width_;
  const RowCodec rows_;  // Without features if blocks hold pooled embeddings.
  BufferPool buffers_;
};

}  // namespace

std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire) {
  return std::make_unique<OrdinaryPool>(embedding_width, wire);
}

}  // namespace simurgh
