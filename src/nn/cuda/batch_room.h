#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "nn/cuda/device_memory.h"
#include "nn/cuda/pinned_blocks.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/transfers.h"
#include "simurgh/base/status.h"

namespace simurgh::cuda {

// Memory of the device for batches: made anew, and larger, when one does not fit. What is captured
// refers to it, and is forgotten then.
//
// Threads: one owner.
template <typename Executor, typename T>
class BatchRoom {
 public:
  // Lifetime: of all.
  BatchRoom(Executor& executor, Tensors<T>& tensors, Transfers<Executor, T>& transfers)
      : executor_(executor), tensors_(tensors), transfers_(transfers) {}

  bool Fits(const PinnedBlock& block) const { return Fits(block.rows, RowInputBytesOf(block)); }

  // Errors: RESOURCE_EXHAUSTED when the device has no such memory; nothing fits then.
  Status Reserve(const PinnedBlock& block) {
    return Reserve(std::max<size_t>(block.rows, 1), RowInputBytesOf(block));
  }
  // For batches of so many samples whose embeddings come pooled.
  Status Reserve(size_t rows) { return Reserve(rows, 0); }

 private:
  // What the block takes of the room for inputs of batches of rows.
  static size_t RowInputBytesOf(const PinnedBlock& block) {
    return block.ids == nullptr ? 0 : block.transfer.input_bytes;
  }
  bool Fits(size_t rows, size_t row_input_bytes) const {
    return rows <= rows_ && row_input_bytes <= row_input_bytes_;
  }

  Status Reserve(size_t rows, size_t row_input_bytes) {
    if (Fits(rows, row_input_bytes)) return absl::OkStatus();
    rows = std::max(rows, rows_);
    // The next batch may have a few rows more.
    row_input_bytes = row_input_bytes <= row_input_bytes_ ? row_input_bytes_
                                                          : row_input_bytes + row_input_bytes / 4;
    rows_ = row_input_bytes_ = 0;
    executor_.ForgetRuns();
    transfers_.Forget();
    // Before the larger one is asked for.
    memory_ = NoMemory();
    tensors_.LayOut(rows, row_input_bytes);
    const size_t bytes = tensors_.batch_plan().planner.bytes();
    memory_ = executor_.AllocateDevice(bytes);
    if (memory_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("dense network: no memory for a batch of ", rows, " samples (", bytes,
                       " bytes on the device); choose a smaller batch or narrower layers"));
    }
    tensors_.SetBatch(memory_.get());
    rows_ = rows;
    row_input_bytes_ = row_input_bytes;
    return absl::OkStatus();
  }

  Executor& executor_;
  Tensors<T>& tensors_;
  Transfers<Executor, T>& transfers_;
  DeviceMemory memory_ = NoMemory();
  size_t rows_ = 0;
  size_t row_input_bytes_ = 0;
};

}  // namespace simurgh::cuda
