#pragma once

#include <array>
#include <functional>
#include <span>

#include "nn/cuda/pinned_blocks.h"
#include "nn/cuda/tensors.h"
#include "nn/cuda/work.h"
#include "simurgh/base/check.h"
#include "simurgh/base/status.h"

namespace simurgh::cuda {

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
  // Errors: as the executor's Synchronize.
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
  std::array<uint64_t, kSlots> loaded_{};  // By slot: the load whose inputs it holds; 0: none.
};

}  // namespace simurgh::cuda
