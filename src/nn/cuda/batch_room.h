#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

#include "nn/cuda/device_memory.h"
#include "nn/cuda/pinned_blocks.h"
#include "nn/cuda/room_log.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/transfers.h"
#include "simurgh/base/status.h"

namespace simurgh::cuda {

// Memory of the device for batches: planned at the start, and made anew, and larger, when one does
// not fit: before anything of its step is enqueued. What is captured refers to it, and is forgotten
// then; a line of the log tells what would have been enough.
//
// Threads: one owner.
template <typename Executor, typename T>
class BatchRoom {
 public:
  // Lifetime: of all.
  BatchRoom(Executor& executor, Tensors<T>& tensors, Transfers<Executor, T>& transfers)
      : executor_(executor), tensors_(tensors), transfers_(transfers) {}

  bool Fits(const PinnedBlock& block) const {
    return memory_ != nullptr && block.rows <= rows_ && RowInputBytesOf(block) <= row_input_bytes_;
  }

  // For batches of so many samples, and inputs of so many bytes where they are of rows.
  // Errors: RESOURCE_EXHAUSTED when the device has no such memory; nothing fits then.
  Status Reserve(size_t rows, size_t row_input_bytes) {
    rows_ = row_input_bytes_ = 0;
    executor_.ForgetRuns();
    transfers_.Forget();
    // Before the larger one is asked for.
    memory_ = NoMemory();
    tensors_.LayOut(rows, row_input_bytes);
    const size_t bytes = tensors_.batch_plan().planner.bytes();
    memory_ = executor_.AllocateDevice(bytes);
    if (memory_ == nullptr) return NoRoom(rows, row_input_bytes, bytes);
    tensors_.SetBatch(memory_.get());
    rows_ = rows;
    row_input_bytes_ = row_input_bytes;
    return absl::OkStatus();
  }

  // Likewise, where the block does not fit.
  Status ReserveFor(const PinnedBlock& block) {
    if (Fits(block)) return absl::OkStatus();
    const size_t needed = RowInputBytesOf(block);
    // The next batch may have a few rows more.
    const size_t room = needed <= row_input_bytes_ ? row_input_bytes_ : needed + needed / 4;
    if (needed > row_input_bytes_ && rows_ > 0) LogRowRoom(needed, row_input_bytes_, room);
    return Reserve(std::max({block.rows, rows_, size_t{1}}), room);
  }

 private:
  // What the block takes of the room for inputs of batches of rows.
  static size_t RowInputBytesOf(const PinnedBlock& block) {
    return block.ids == nullptr ? 0 : block.transfer.input_bytes;
  }

  static Status NoRoom(size_t rows, size_t row_input_bytes, size_t bytes) {
    std::string message = absl::StrCat("dense network: no memory for a batch of ", rows,
                                       " samples (", bytes, " bytes on the device");
    if (row_input_bytes > 0) {
      absl::StrAppend(&message, ", of these ", kSlots * row_input_bytes,
                      " for what comes with rows: see nn_worker.batch_row_bytes");
    }
    absl::StrAppend(&message, "); choose a smaller batch or narrower layers");
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
