#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "config/service_config.h"

namespace simurgh {

// Makes pushes apply exactly once: remembers the applied steps of each (run, rank), for the
// kMaxRanks that pushed last. Every rank pushes every step to every partition, with empty groups
// if necessary, so a permanent gap means lost rows.
//
// Threads: one owner.
class PushWindow {
 public:
  // Most steps that a rank may be ahead of its oldest missing step; far beyond any staleness.
  static constexpr uint64_t kOpenSteps = 1024;

  // The rank's first push is that of `step`. Requires a rank that has not pushed.
  void BeginAt(uint64_t run, uint32_t rank, uint64_t step) { Add(run, rank).next_step = step; }

  // The rank has pushed before, and which steps arrived here is not known. Missing ones are no
  // error. Requires a rank that has not pushed.
  void BeginAnywhere(uint64_t run, uint32_t rank) { Add(run, rank).misses_steps = true; }

  // Returns whether the push has been applied before.
  // Errors: DATA_LOSS when more than kOpenSteps steps are missing.
  StatusOr<bool> Applied(uint64_t run, uint32_t rank, uint64_t step) const;

  // Requires that Applied() has just returned false.
  void Record(uint64_t run, uint32_t rank, uint64_t step);

  // Returns whether the rank's first `steps` steps are recorded. If steps may be missing without
  // error, only the last one counts.
  bool HasFirst(uint64_t run, uint32_t rank, uint64_t steps) const;
  // See BeginAnywhere().
  bool misses_steps(uint64_t run, uint32_t rank) const;

  // Errors: DATA_LOSS unless the rank's first `acknowledged_steps` steps are recorded.
  Status CheckAcknowledged(uint64_t run, uint32_t rank, uint64_t acknowledged_steps) const;

 private:
  struct Trainer {
    uint64_t run;
    uint32_t rank;
    uint64_t last_use = 0;
    uint64_t next_step = 0;         // The first step that is missing.
    bool misses_steps = false;      // Never reset; see BeginAnywhere.
    std::bitset<kOpenSteps> steps;  // A ring of the kOpenSteps steps from next_step on.
  };

  Trainer& Add(uint64_t run, uint32_t rank);
  const Trainer* Find(uint64_t run, uint32_t rank) const;

  std::vector<Trainer> trainers_;
  uint64_t uses_ = 0;
};

}  // namespace simurgh
