#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// A rank's push as it waits at a partition for those of the others.
struct HeldPush {
  StepId position;
  std::span<const PushGroup> groups;
  // Told once how it ended; until then what the groups refer to is there.
  std::function<void(const Status&, const PushReport&)> end;
};

// Brings the pushes of a step's ranks together: they go on when all have come, step by step in the
// order of the ranks. A push of a step that has gone on is a repetition, and goes on by itself.
//
// A rank may send its push again, through another embedding worker: the earlier one is then ended
// with ABORTED. So are pushes of a run that is not among the last few.
//
// Threads: one owner.
class StepBarrier {
 public:
  static constexpr size_t kMaxRuns = 4;

  // Takes a push; answers those that may go on now, each a step's or a repetition alone.
  // Requires position.rank < position.ranks.
  std::vector<std::vector<HeldPush>> Add(HeldPush push);

  // Ends a push that waits, if it does, with DEADLINE_EXCEEDED.
  void GiveUp(const StepId& position);
  // Ends all that wait, and all that come, with ABORTED.
  void Close();

 private:
  using Step = std::vector<std::optional<HeldPush>>;  // By rank.

  struct Run {
    uint64_t run = 0;
    uint64_t next_step = 0;  // Those before it have gone on.
    std::map<uint64_t, Step> steps;
  };

  Run& FindOrAdd(uint64_t run);
  static void End(Run& run, const char* reason);

  std::list<Run> runs_;  // The last to push first.
  bool closed_ = false;
};

}  // namespace simurgh
