#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

#include "nn/cuda/device_memory.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/pinned_blocks.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/transfers.h"
#include "simurgh/base/status.h"

namespace simurgh::cuda {

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

  bool Fits(const PinnedBlock& block) const {
    return memory_ != nullptr && block.rows <= rows_ && RowInputBytesOf(block) <= row_input_bytes_;
  }

  // Allocates for batches of `rows` samples with inputs of `row_input_bytes` if they are rows.
  // Errors: RESOURCE_EXHAUSTED without device memory; then no batch fits.
  Status Reserve(size_t rows, size_t row_input_bytes) {
    rows_ = row_input_bytes_ = 0;
    executor_.ForgetRuns();
    transfers_.Forget();
    memory_ = NoMemory();  // Frees the old memory first.
    tensors_.LayOut(rows, row_input_bytes);
    const size_t bytes = tensors_.batch_plan().planner.bytes();
    memory_ = executor_.AllocateDevice(bytes);
    if (memory_ == nullptr) return NoRoom(rows, row_input_bytes, bytes);
    tensors_.SetBatch(memory_.get());
    rows_ = rows;
    row_input_bytes_ = row_input_bytes;
    return absl::OkStatus();
  }

  // Calls Reserve if the block does not fit.
  Status ReserveFor(const PinnedBlock& block) {
    if (Fits(block)) return absl::OkStatus();
    const size_t needed = RowInputBytesOf(block);
    // With headroom for the next batches.
    const size_t room = needed <= row_input_bytes_ ? row_input_bytes_ : needed + needed / 4;
    if (needed > row_input_bytes_ && rows_ > 0) LogRowRoom(needed, row_input_bytes_, room);
    return Reserve(std::max({block.rows, rows_, size_t{1}}), room);
  }

 private:
  // Input bytes of a block of rows; else 0.
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
};

}  // namespace simurgh::cuda
