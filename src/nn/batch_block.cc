#include "simurgh/nn/batch_block.h"

#include "simurgh/base/aligned_buffer.h"

namespace simurgh {
namespace {

// Idle memory kept for coming batches.
constexpr size_t kIdleBytes = size_t{1} << 30;

struct OrdinaryBlock final : BatchBlock {
  std::shared_ptr<AlignedBuffer> memory;
};

class OrdinaryPool final : public BlockPool {
 public:
  explicit OrdinaryPool(size_t embedding_width) : width_(embedding_width), buffers_(kIdleBytes) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    const size_t count = rows * width_;
    auto block = std::make_shared<OrdinaryBlock>();
    // One buffer for both, the gradients on a cache line.
    const size_t gradients = (count * sizeof(float) + kBufferAlignment - 1) / kBufferAlignment *
                             kBufferAlignment / sizeof(float);
    block->memory = buffers_.Lease((gradients + (with_gradients ? count : 0)) * sizeof(float));
    float* const values = block->memory->as<float>(0).data();
    block->embeddings = {values, rows, width_};
    block->coded_embeddings.bytes = std::as_writable_bytes(block->embeddings.flat());
    if (with_gradients) {
      block->gradients = {values + gradients, rows, width_};
      block->coded_gradients.bytes = std::as_writable_bytes(block->gradients.flat());
    }
    return block;
  }

 private:
  const size_t width_;
  BufferPool buffers_;
};

}  // namespace

std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width) {
  return std::make_unique<OrdinaryPool>(embedding_width);
}

}  // namespace simurgh
