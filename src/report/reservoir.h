#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/random.h"

namespace simurgh {

// Chooses a uniform sample of a stream: each row is in it with the same probability.
//
// Source: Vitter, "Random sampling with a reservoir", ACM TOMS 11, 1985, algorithm R.
// Threads: one owner.
class Reservoir {
 public:
  // capacity: most rows of the sample. With fewer rows in the stream, all are in it, in order.
  Reservoir(size_t capacity, uint64_t seed) : capacity_(capacity), random_(seed) {}

  // Returns the place in the sample of the stream's next row, which replaces the row there. None:
  // the row is not in the sample.
  std::optional<size_t> Next() {
    const uint64_t row = rows_++;
    if (row < capacity_) return static_cast<size_t>(row);
    const uint64_t place = random_.Below(row + 1);
    return place < capacity_ ? std::optional(static_cast<size_t>(place)) : std::nullopt;
  }

 private:
  const size_t capacity_;
  Random random_;
  uint64_t rows_ = 0;
};

}  // namespace simurgh
