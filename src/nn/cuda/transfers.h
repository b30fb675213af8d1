#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/status.h"
#include "nn/batch_block.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/work.h"
#include "nn/dense_network.h"
#include "nn/model_plan.h"

namespace simurgh::cuda {

// A batch in pinned host memory, laid out as BatchTransfer.
struct PinnedBlock final : BatchBlock {
  size_t rows = 0;
  const WireCodes* codes = nullptr;
  BatchTransfer transfer;
  std::shared_ptr<AlignedBuffer> input;
  std::shared_ptr<AlignedBuffer> output;
  // Used by Transfers: the batch's slot on the device and the number of its load; 0: not loaded.
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

// Pinned memory, or ordinary memory, from which copies are slower. Executor: see DeviceNetwork.
template <typename Executor>
AlignedBuffer PinnedBuffer(Executor& executor, size_t size) {
  DeviceMemory memory = executor.AllocatePinned(size);
  if (memory == nullptr) return AlignedBuffer(size);
  auto* const release = memory.get_deleter();
  return {memory.release(), size, release};
}

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
        buffers_(std::numeric_limits<size_t>::max(),
                 [&executor](size_t size) { return PinnedBuffer(executor, size); }) {}

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

// Copies batches between blocks and the device's slots, in one lane per direction. While one slot
// is computed, the next batch is copied into the other slot, and the last one's gradients out of
// it. Enqueues, except for Await functions.
//
// Threads: one owner.
template <typename Executor, typename T>
class Transfers {
 public:
  // Lifetime: both outlive this.
  Transfers(Executor& executor, Tensors<T>& tensors) : executor_(executor), tensors_(tensors) {}

  // Copies the block's inputs, dense features and labels into the idle slot. The block must not
  // change until it has been computed, or will not be.
  void Load(PinnedBlock& block, const MatrixView<const float>& dense,
            std::span<const float> labels) {
    [[maybe_unused]] const auto range = executor_.Range("copy in");
    block.Stage(dense, labels);
    block.slot = (computing_ + 1) % kSlots;
    loaded_[block.slot] = block.load = ++loads_;
    executor_.On(Lane::kCopyIn, [&] {
      executor_.Await({Event::kComputed, block.slot});
      executor_.ToDevice(tensors_.input(block.slot), block.input->data(),
                         block.transfer.input_bytes);
      executor_.Signal({Event::kCopiedIn, block.slot});
    });
  }

  // Starts the computation of a block; loads its inputs if needed.
  void Begin(PinnedBlock& block, const MatrixView<const float>& dense,
             std::span<const float> labels) {
    // Another block may have taken its slot.
    if (block.load == 0 || loaded_[block.slot] != block.load) Load(block, dense, labels);
    computing_ = block.slot;
    tensors_.SetRows(block.rows, block.transfer, block.slot);
    executor_.Await({Event::kCopiedIn, block.slot});
    executor_.Await({Event::kCopiedOut, block.slot});  // The slot's results are overwritten.
  }

  // Copies out the results of the computation enqueued since Begin.
  void End(const PinnedBlock& block) {
    executor_.Signal({Event::kComputed, block.slot});
    loaded_[block.slot] = 0;
    executor_.On(Lane::kCopyOut, [&] {
      [[maybe_unused]] const auto range = executor_.Range("copy out");
      executor_.Await({Event::kComputed, block.slot});
      const std::byte* from = tensors_.output();
      const size_t report_bytes = block.transfer.embedding_gradient.offset;
      executor_.ToHost(block.output->data(), from, report_bytes);
      executor_.Signal({Event::kReported, block.slot});
      if (!block.encoded_gradients.bytes.empty()) {
        executor_.ToHost(block.output->data() + report_bytes, from + report_bytes,
                         block.transfer.embedding_gradient.bytes);
      }
      executor_.Signal({Event::kCopiedOut, block.slot});
    });
  }

  // Wait for the report and probabilities, or the gradients, of the last block in its slot.
  // Errors: those of the executor's Synchronize.
  Status AwaitReport(const PinnedBlock& block, const std::function<Status()>& check = {}) {
    return executor_.WaitFor({Event::kReported, block.slot}, check);
  }
  Status AwaitGradients(const PinnedBlock& block) {
    return executor_.WaitFor({Event::kCopiedOut, block.slot});
  }

  // Marks the slots as empty.
  void Forget() { loaded_ = {}; }

 private:
  Executor& executor_;
  Tensors<T>& tensors_;
  size_t computing_ = 0;  // The slot of the last Begin.
  uint64_t loads_ = 0;
  std::array<uint64_t, kSlots> loaded_{};  // Load whose inputs each slot holds; 0: none.
};

// A host copy of floats on the device, copied in either direction when out of date.
//
// Threads: one owner.
class HostMirror {
 public:
  HostMirror() = default;
  explicit HostMirror(std::span<float> device) : device_(device) {}

  // Marks the host's values as out of date.
  void DeviceChanged() {
    is_old_ = true;
    is_written_ = false;
  }

  // Copies the values from the device if out of date. written: the caller may change them.
  // Requires that the last Send is done.
  template <typename Executor>
  Status Read(Executor& executor, bool written) {
    if (host_.size() == 0)
      host_ = PinnedBuffer(executor, std::max<size_t>(device_.size_bytes(), 1));
    if (is_old_ && !device_.empty()) {
      executor.ToHost(host_.data(), device_.data(), device_.size_bytes());
      SIMURGH_RETURN_IF_ERROR(executor.Synchronize());
    }
    is_old_ = false;
    is_written_ = is_written_ || written;
    return absl::OkStatus();
  }

  // Enqueues the copy of changed values to the device, before it uses them. Returns whether there
  // were any.
  template <typename Executor>
  bool Send(Executor& executor) {
    const bool sends = std::exchange(is_written_, false) && !device_.empty();
    if (sends) executor.ToDevice(device_.data(), host_.data(), device_.size_bytes());
    return sends;
  }

  // Requires Read.
  std::span<float> values() const { return host_.as<float>(device_.size()); }

 private:
  std::span<float> device_;
  AlignedBuffer host_;
  bool is_old_ = true;
  bool is_written_ = false;
};

// Device memory for batches. A batch that does not fit reallocates it before its step is enqueued;
// this drops captured graphs, which refer to the memory, and logs the size to configure.
//
// Threads: one owner.
template <typename Executor, typename T>
class BatchRoom {
 public:
  // Lifetime: the arguments outlive this.
  BatchRoom(Executor& executor, Tensors<T>& tensors, Transfers<Executor, T>& transfers)
      : executor_(executor), tensors_(tensors), transfers_(transfers) {}

  // gathered: see InBatchRoom.
  bool Fits(const PinnedBlock& block, size_t gathered = 0) const {
    return memory_ != nullptr && block.rows <= rows_ && gathered <= gathered_ &&
           RowInputBytesOf(block) <= row_input_bytes_;
  }

  // Allocates for batches of `rows` samples with inputs of `row_input_bytes` if they are rows.
  // Errors: RESOURCE_EXHAUSTED without device memory; then no batch fits.
  Status Reserve(size_t rows, size_t row_input_bytes, size_t gathered = 0) {
    rows_ = row_input_bytes_ = gathered_ = 0;
    executor_.ForgetRuns();
    transfers_.Forget();
    memory_ = NoMemory();  // Frees the old memory first.
    tensors_.LayOut(rows, row_input_bytes, {executor_.score_floats(), gathered});
    const size_t bytes = tensors_.batch_plan().planner.bytes();
    memory_ = executor_.AllocateDevice(bytes);
    if (memory_ == nullptr) return NoRoom(rows, row_input_bytes, bytes);
    tensors_.SetBatch(memory_.get());
    rows_ = rows;
    row_input_bytes_ = row_input_bytes;
    gathered_ = gathered;
    return absl::OkStatus();
  }

  // Calls Reserve if the block does not fit.
  Status ReserveFor(const PinnedBlock& block, size_t gathered = 0) {
    if (Fits(block, gathered)) return absl::OkStatus();
    const size_t needed = RowInputBytesOf(block);
    // The size has headroom for the next batches.
    const size_t room = needed <= row_input_bytes_ ? row_input_bytes_ : needed + needed / 4;
    if (needed > row_input_bytes_ && rows_ > 0) LogRowRoom(needed, row_input_bytes_, room);
    return Reserve(std::max({block.rows, rows_, size_t{1}}), room, std::max(gathered, gathered_));
  }

 private:
  // Returns the input bytes of a block of rows; else 0.
  static size_t RowInputBytesOf(const PinnedBlock& block) {
    return block.ids == nullptr ? 0 : block.transfer.input_bytes;
  }

  static Status NoRoom(size_t rows, size_t row_input_bytes, size_t bytes) {
    std::string message = absl::StrCat("dense network: no memory for a batch of ", rows,
                                       " samples (", bytes, " bytes on the device");
    if (row_input_bytes > 0) {
      absl::StrAppend(&message, ", of which ", kSlots * row_input_bytes,
                      " for rows, see nn_worker.batch_row_bytes");
    }
    absl::StrAppend(&message, "); use a smaller batch or narrower layers");
    return absl::ResourceExhaustedError(message);
  }

  Executor& executor_;
  Tensors<T>& tensors_;
  Transfers<Executor, T>& transfers_;
  DeviceMemory memory_ = NoMemory();
  size_t rows_ = 0;
  size_t row_input_bytes_ = 0;
  size_t gathered_ = 0;
};

}  // namespace simurgh::cuda
