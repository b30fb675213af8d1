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
#include "simurgh/nn/dense_network.h"

namespace simurgh::cuda {

// A batch in pinned host memory, laid out as BatchTransfer.
struct PinnedBlock final : BatchBlock {
  size_t rows = 0;
  const WireCodes* codes = nullptr;
  BatchTransfer transfer;
  std::shared_ptr<AlignedBuffer> input;
  std::shared_ptr<AlignedBuffer> output;
  // For Transfers: the batch's slot on the device and the number of its load; 0: not loaded.
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

  // Copies dense features and labels into the block.
  void Stage(MatrixView<const float> dense, std::span<const float> labels) const {
    auto* to = In<float>(transfer.dense);
    for (size_t row = 0; row < dense.rows(); ++row) to = std::ranges::copy(dense.row(row), to).out;
    std::ranges::copy(labels, In<float>(transfer.labels));
    if (transfer.rounding.bytes > 0) *In<RoundingKey>(transfer.rounding) = rounding;
    if (ids != nullptr) StageIds();
  }

  // Copies the index of the rows into the block.
  void StageIds() const {
    auto* const first_bytes = In<uint64_t>(transfer.first_bytes);
    first_bytes[RowIndex::kOccurrences] = transfer.occurrences.offset;
    first_bytes[RowIndex::kWeights] = ids->weights.empty() ? 0 : transfer.weights.offset;
    for (size_t f = 0; f < ids->feature_count(); ++f) {
      const size_t list = ids->list_of(f);
      const size_t first_id = list == 0 ? 0 : ids->unique_ends[list - 1];
      first_bytes[RowIndex::kRowOffsets + f] =
          transfer.row_offsets.offset + first_id * sizeof(uint64_t);
    }
    std::ranges::copy(ids->offsets, In<uint32_t>(transfer.offsets));
    std::ranges::copy(ids->occurrences, In<uint32_t>(transfer.occurrences));
    std::ranges::copy(ids->weights, In<float>(transfer.weights));
    auto* const row_offsets = In<uint64_t>(transfer.row_offsets);
    uint64_t next = transfer.rows.offset;
    codes->rows.ForEachId(*ids, [&](size_t id, const VectorCodec& row) {
      row_offsets[id] = next;
      next += row.row_bytes();
    });
  }
};

// Executor: see DeviceNetwork. Without pinned memory, blocks use ordinary memory, from which copies
// are slower.
template <typename Executor>
class PinnedBlocks final : public BlockPool {
 public:
  // Lifetime: plan, codes and executor outlive this.
  PinnedBlocks(const ModelPlan& plan, const WireCodes& codes, const DenseNetworkOptions& options,
               Executor& executor)
      : plan_(plan),
        codes_(codes),
        row_input_bytes_(options.batch_row_bytes > 0
                             ? options.batch_row_bytes
                             : RowInputBytes(plan, codes, options.batch_rows)),
        buffers_(std::numeric_limits<size_t>::max(), [&executor](size_t size) {
          DeviceMemory memory = executor.AllocatePinned(size);
          if (memory == nullptr) return AlignedBuffer(size);
          auto* const release = memory.get_deleter();
          return AlignedBuffer(memory.release(), size, release);
        }) {}

  // Minimum input bytes of a block of rows, so that blocks can reuse each other's memory.
  size_t row_input_bytes() const { return row_input_bytes_; }

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return LeasePinned(rows, with_gradients);
  }
  std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                       bool with_gradients) override {
    const size_t rows = ids->batch_size;
    return LeasePinned(rows, with_gradients, codes_.pools() ? ids : nullptr);
  }

 private:
  // ids: of a block of rows; else null.
  std::shared_ptr<BatchBlock> LeasePinned(size_t rows, bool with_gradients,
                                          std::shared_ptr<const CompactBatch> ids = nullptr) {
    auto block = std::make_shared<PinnedBlock>();
    block->rows = rows;
    block->codes = &codes_;
    block->transfer = PlanTransfer(plan_, codes_, rows, ids.get());
    block->ids = std::move(ids);
    const BatchTransfer& transfer = block->transfer;
    block->input =
        buffers_.Lease(block->ids == nullptr ? transfer.input_bytes
                                             : std::max(transfer.input_bytes, row_input_bytes_));
    block->output =
        buffers_.Lease(with_gradients ? transfer.output_bytes : transfer.embedding_gradient.offset);
    const Region& embeddings = block->ids == nullptr ? transfer.embeddings : transfer.rows;
    block->encoded_embeddings = {
        codes_.embeddings.precision(),
        block->input->bytes().subspan(embeddings.offset, embeddings.bytes)};
    if (block->ids == nullptr) {
      block->embeddings = FloatsOf(block->encoded_embeddings, rows);
    } else {
      block->encoded_embeddings.form = EmbeddingForm::kRows;
    }
    block->gradient_factor = codes_.gradient_factor;
    block->rounding.seed = codes_.seed;
    if (!with_gradients) return block;
    block->encoded_gradients = {codes_.gradients.precision(),
                                block->output->bytes().subspan(transfer.embedding_gradient.offset,
                                                               transfer.embedding_gradient.bytes)};
    block->gradients = FloatsOf(block->encoded_gradients, rows);
    return block;
  }

  MatrixView<float> FloatsOf(const BatchBlock::Encoded& encoded, size_t rows) const {
    if (encoded.precision != VectorPrecision::kF32) return {};
    return {reinterpret_cast<float*>(encoded.bytes.data()), rows, plan_.embedding_width};
  }

  const ModelPlan& plan_;
  const WireCodes& codes_;
  const size_t row_input_bytes_;
  BufferPool buffers_;  // Keeps idle buffers, because pinning memory is slow.
};

}  // namespace simurgh::cuda
