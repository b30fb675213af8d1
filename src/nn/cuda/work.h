#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace simurgh::cuda {

// Memory from an executor, with its deleter.
using DeviceMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;

inline DeviceMemory NoMemory() {
  return {nullptr, [](std::byte*) {}};
}

// Batches on the device at once: one is computed while the next one is copied in, or the last one's
// gradients out.
inline constexpr size_t kSlots = 2;

// Work in one lane runs in order, in parallel with the other lanes.
enum class Lane { kCompute, kCopyIn, kCopyOut, kSums };
inline constexpr size_t kLanes = 4;

// An event of the last batch in a slot; the last two kinds use one slot.
struct Event {
  enum Kind {
    kCopiedIn,   // The batch's inputs are on the device.
    kComputed,   // The batch's results are complete; its inputs are no longer read.
    kReported,   // The host has the batch's report and probabilities.
    kCopiedOut,  // The host has the batch's gradients.
    kGradients,  // Gradients may be summed over the ranks.
    kSummed,     // Gradients are sums over the ranks.
  };

  Kind kind = kCopiedIn;
  size_t slot = 0;
};
inline constexpr size_t kEventKinds = 6;

// Identifies a repeated sequence of kernels, products and copies.
struct Work {
  enum Kind { kTrain, kPredict, kApply };

  Kind kind = kTrain;
  size_t slot = 0;
  size_t rows = 0;
  uint64_t samples = 0;
  uint64_t divisor = 0;            // Gradients are divided by it.
  bool shares_statistics = false;  // Batch norm uses all ranks' statistics.
  bool pools = false;              // The device pools the batch's rows.
  bool decides = false;            // The device decides whether the step counts.
  size_t items = 0;                // Items of all ranks, with padding, of in_batch_softmax.
  size_t uniform_negatives = 0;    // See RankStep.

  auto operator<=>(const Work&) const = default;

  // Name for profiles.
  const char* name() const {
    return kind == kTrain ? "pass" : kind == kPredict ? "predict" : "apply";
  }
};

}  // namespace simurgh::cuda
