#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace simurgh::cuda {

// Moments of a step between which its computations lie.
enum class Moment { kBegin, kEnd, kApplyBegin, kApplyEnd };
inline constexpr size_t kMoments = 4;

// Names a sequence of kernels, products and copies that is the same each time: for one kind of work
// and one number of rows, of this rank and of all.
struct Work {
  enum Kind { kTrain, kPredict, kApply };

  Kind kind = kTrain;
  size_t rows = 0;
  uint64_t samples = 0;
  bool shares_statistics = false;  // Batch norm's are of all ranks.

  auto operator<=>(const Work&) const = default;
};

}  // namespace simurgh::cuda
