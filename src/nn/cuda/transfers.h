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

// Batches on their way between blocks and the slots of the device, each way in a lane of its own:
// while one batch is computed in its slot, the next one comes into the other slot, and the last
// one's gradients leave from there. Enqueues, but for what says Await.
//
// Threads: one owner.
template <typename Executor, typename T>
class Transfers {
 public:
  // Lifetime: of both.
  Transfers(Executor& executor, Tensors<T>& tensors) : executor_(executor), tensors_(tensors) {}

  // Copies the block's inputs, with what the reader has, into the slot that is not computed in. The
  // block stays as it is until it has been computed, or nobody asks for that any more.
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

  // Computation that is enqueued from now on is of this block, and finds its inputs.
  void Begin(PinnedBlock& block, const MatrixView<const float>& dense,
             std::span<const float> labels) {
    // Another one may have taken its slot.
    if (block.load == 0 || loaded_[block.slot] != block.load) Load(block, dense, labels);
    computing_ = block.slot;
    tensors_.SetRows(block.rows, block.transfer, block.slot);
    executor_.Await({Event::kCopiedIn, block.slot});
    executor_.Await({Event::kCopiedOut, block.slot});  // What it overwrites has left.
  }

  // Computation that was enqueued since Begin has made its results: they leave.
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
      if (!block.coded_gradients.bytes.empty()) {
        executor_.ToHost(block.output->data() + report_bytes, from + report_bytes,
                         block.transfer.embedding_gradient.bytes);
      }
      executor_.Signal({Event::kCopiedOut, block.slot});
    });
  }

  // Wait for the report and probabilities, or the gradients, of the block that was last in its
  // slot. Errors: as Synchronize of the executor.
  Status AwaitReport(const PinnedBlock& block, const std::function<Status()>& check = {}) {
    return executor_.WaitFor({Event::kReported, block.slot}, check);
  }
  Status AwaitGradients(const PinnedBlock& block) {
    return executor_.WaitFor({Event::kCopiedOut, block.slot});
  }

  // The slots have moved, and hold nothing any more.
  void Forget() { loaded_ = {}; }

 private:
  Executor& executor_;
  Tensors<T>& tensors_;
  size_t computing_ = 0;  // The slot of the last Begin.
  uint64_t loads_ = 0;
  std::array<uint64_t, kSlots> loaded_{};  // By slot: the load whose inputs it holds; 0: none.
};

}  // namespace simurgh::cuda
