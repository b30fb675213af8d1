#pragma once

#include <compare>
#include <cstddef>

namespace simurgh::cuda {

// Names a sequence of kernels, products and copies that is the same each time: for one kind of work
// and one number of rows.
struct Work {
  enum Kind { kTrain, kPredict, kApply };

  Kind kind = kTrain;
  size_t rows = 0;

  auto operator<=>(const Work&) const = default;
};

}  // namespace simurgh::cuda
