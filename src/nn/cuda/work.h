#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace simurgh::cuda {

// Moments of a step between which its computations lie.
enum class Moment { kBegin, kEnd, kApplyBegin, kApplyEnd };
inline constexpr size_t kMoments = 4;

// Batches that have a place on the device at once: while one is computed, the next one comes, or
// the last one's gradients leave.
inline constexpr size_t kSlots = 2;

// What is enqueued in one lane runs in order, beside what is in the others.
enum class Lane { kCompute, kCopyIn, kCopyOut };
inline constexpr size_t kLanes = 3;

// What lanes, and the host, wait for, of the batch that was last in a slot.
struct Event {
  enum Kind {
    kCopiedIn,   // Its inputs are on the device.
    kComputed,   // Nothing reads its inputs any more, and its results are there.
    kReported,   // The host has its report and probabilities,
    kCopiedOut,  // and its gradients.
  };

  Kind kind = kCopiedIn;
  size_t slot = 0;
};
inline constexpr size_t kEventKinds = 4;

// Names a sequence of kernels, products and copies that is the same each time: for one kind of work
// in one slot, and one number of samples, of this rank and of all.
struct Work {
  enum Kind { kTrain, kPredict, kApply };

  Kind kind = kTrain;
  size_t slot = 0;
  size_t rows = 0;
  uint64_t samples = 0;
  bool shares_statistics = false;  // Batch norm's are of all ranks.
  bool pools = false;              // The batch comes as rows.

  auto operator<=>(const Work&) const = default;

  // As a profile shows it.
  const char* name() const {
    return kind == kTrain ? "pass" : kind == kPredict ? "predict" : "apply";
  }
};

}  // namespace simurgh::cuda
