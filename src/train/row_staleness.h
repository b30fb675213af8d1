#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace simurgh {

// How many earlier steps the rows of a batch may lack, where some may have come with the pull of an
// earlier step.
//
// Threads: one at a time.
class RowStaleness {
 public:
  // A step is asked about while fewer than `window` later ones have begun; rows are at most
  // row_age_steps old.
  RowStaleness(uint32_t window, uint32_t row_age_steps)
      : row_age_steps_(row_age_steps), unacknowledged_(window + row_age_steps + 1) {}

  // So many earlier steps were not acknowledged when this one began to be pulled.
  void Note(uint64_t step, uint32_t unacknowledged) {
    unacknowledged_[step % unacknowledged_.size()] = unacknowledged;
  }

  // A row that came with the pull of step s lacks what was not acknowledged then, and the steps
  // from s on. oldest_row: the age in steps of the oldest; the others may be of any age up to it.
  uint32_t Of(uint64_t step, uint32_t oldest_row) const {
    uint32_t staleness = 0;
    const uint64_t oldest = std::min<uint64_t>({oldest_row, row_age_steps_, step});
    for (uint32_t age = 0; age <= oldest; ++age) {
      const uint32_t before = unacknowledged_[(step - age) % unacknowledged_.size()];
      staleness = std::max(staleness, before + age);
    }
    return staleness;
  }

 private:
  const uint32_t row_age_steps_;
  std::vector<uint32_t> unacknowledged_;  // Of the latest steps, by step modulo their number.
};

}  // namespace simurgh
