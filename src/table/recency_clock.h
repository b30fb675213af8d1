#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace simurgh {

// Maps steps of trainers to stamps that never decrease. Within a run, stamps advance with the
// steps. The first step of a new run gets the next stamp, whatever its number.
//
// Threads: one owner.
class RecencyClock {
 public:
  uint64_t Advance(uint64_t run, uint64_t step) {
    if (run != run_) {
      run_ = run;
      first_step_ = step;
      base_ = ++newest_;
    }
    // Ranks may be some steps apart: a step before the first one counts as the first.
    newest_ = std::max(newest_, base_ + (step - std::min(step, first_step_)));
    return newest_;
  }

  // The next run begins after this stamp.
  void ContinueAt(uint64_t stamp) { newest_ = std::max(newest_, stamp); }

 private:
  std::optional<uint64_t> run_;
  uint64_t first_step_ = 0;
  uint64_t base_ = 0;
  uint64_t newest_ = 0;
};

}  // namespace simurgh
