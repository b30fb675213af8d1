#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace simurgh {

// Bounds how many earlier steps the rows of a batch lack, where some may be cached rows of the pull
// of an earlier step.
//
// Threads: one at a time.
class RowStaleness {
 public:
  // Of(step) requires that fewer than `window` later steps have begun. Rows are at most
  // row_age_steps old.
  RowStaleness(uint32_t window, uint32_t row_age_steps)
      : row_age_steps_(row_age_steps), unacknowledged_(window + row_age_steps + 1) {}

  // unacknowledged: number of earlier steps at the start of the step's pull.
  void Note(uint64_t step, uint32_t unacknowledged) {
    unacknowledged_[step % unacknowledged_.size()] = unacknowledged;
  }

  // A row of the pull of step s lacks the steps that were unacknowledged then, and the steps from s
  // on. oldest_row: age of the oldest row in steps; other rows may have any age up to it.
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
  std::vector<uint32_t> unacknowledged_;  // By step modulo the window.
};

}  // namespace simurgh
