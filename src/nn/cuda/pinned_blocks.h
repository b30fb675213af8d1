#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "nn/cuda/memory_plan.h"
#include "nn/model_plan.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/nn/batch_block.h"

namespace simurgh::cuda {

// A batch in memory that a device copies from and to by itself: what goes there in one piece, and
// what comes back in another, each laid out as BatchTransfer says.
struct PinnedBlock final : BatchBlock {
  size_t rows = 0;
  BatchTransfer transfer;
  std::shared_ptr<AlignedBuffer> input;
  std::shared_ptr<AlignedBuffer> output;
  // Of Transfers: where it is on the device, and since which load; 0: since none.
  size_t slot = 0;
  uint64_t load = 0;

  template <typename T>
  T* In(const Region& region) const {
    return reinterpret_cast<T*>(input->data() + region.offset);
  }
  template <typename T>
  T* Out(const Region& region) const {
    return reinterpret_cast<T*>(output->data() + region.offset);
  }

  // Puts what the reader has beside the embeddings.
  void Stage(MatrixView<const float> dense, std::span<const float> labels) const {
    CopyRows(dense, {In<float>(transfer.dense), dense.rows(), dense.columns()});
    std::ranges::copy(labels, In<float>(transfer.labels));
  }

  static void CopyRows(MatrixView<const float> from, MatrixView<float> to) {
    for (size_t row = 0; row < from.rows(); ++row) {
      std::ranges::copy(from.row(row), to.row(row).begin());
    }
  }
};

// Executor: of DeviceNetwork; its AllocatePinned is for any thread. Where it has no more such
// memory, blocks are of ordinary memory, from which copies are slower.
template <typename Executor>
class PinnedBlocks final : public BlockPool {
 public:
  // Lifetime: of both.
  PinnedBlocks(const ModelPlan& plan, Executor& executor)
      : plan_(plan), buffers_(std::numeric_limits<size_t>::max(), [&executor](size_t size) {
          DeviceMemory memory = executor.AllocatePinned(size);
          if (memory == nullptr) return AlignedBuffer(size);
          auto* const release = memory.get_deleter();
          return AlignedBuffer(memory.release(), size, release);
        }) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return LeasePinned(rows, with_gradients);
  }

  std::shared_ptr<PinnedBlock> LeasePinned(size_t rows, bool with_gradients) {
    auto block = std::make_shared<PinnedBlock>();
    block->rows = rows;
    block->transfer = PlanTransfer(plan_, rows);
    const BatchTransfer& transfer = block->transfer;
    block->input = buffers_.Lease(transfer.input_bytes);
    block->output =
        buffers_.Lease(with_gradients ? transfer.output_bytes : transfer.embedding_gradient.offset);
    const size_t width = plan_.embedding_width;
    block->embeddings = {block->In<float>(transfer.embeddings), rows, width};
    if (with_gradients) {
      block->gradients = {block->Out<float>(transfer.embedding_gradient), rows, width};
    }
    return block;
  }

 private:
  const ModelPlan& plan_;
  BufferPool buffers_;  // Idle ones are kept for good: pinning memory is dear.
};

}  // namespace simurgh::cuda
