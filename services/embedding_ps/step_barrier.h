#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "table/partition.h"

namespace simurgh {

// A rank's push that waits at a partition for those of the other ranks.
struct HeldPush {
  StepId step_id;
  std::span<const PushGroup> groups;
  // Called once with the result. The memory of `groups` is valid until then.
  std::function<void(const Status&, const PushReport&)> end;
  uint64_t trace = 0;  // Trace id of the batch.
};

// Collects the pushes of a step and releases them, in rank order, when all ranks have pushed. Steps
// are released in order. A push of a released step is a repetition and is released at once.
//
// A repeated push of a waiting step replaces the earlier one, which fails with ABORTED. Waiting
// pushes of a run fail likewise when kMaxRuns other runs have pushed since.
//
// Threads: one owner.
class StepBarrier {
 public:
  static constexpr size_t kMaxRuns = 4;

  // The run's first step is `step`. Waiting pushes of older starts of its training fail with
  // ABORTED. Requires a run without pushes.
  void BeginAt(uint64_t run, uint64_t step);

  // Adds a push. Returns the released ones: each element is a whole step or one repetition.
  // Requires step_id.rank < step_id.ranks.
  std::vector<std::vector<HeldPush>> Add(HeldPush push);

  // Fails a push with DEADLINE_EXCEEDED if it waits.
  void TimeOut(const StepId& step_id);
  // Fails all waiting and future pushes with ABORTED.
  void Close();

 private:
  using Step = std::vector<std::optional<HeldPush>>;  // One per rank.

  struct Run {
    uint64_t run = 0;
    uint64_t next_step = 0;  // Earlier steps have been released.
    std::map<uint64_t, Step> steps;
  };

  Run& FindOrAdd(uint64_t run);
  static void Abort(Run& run, const char* reason);

  std::list<Run> runs_;  // Most recently used first.
  bool closed_ = false;
};

// The sum of several pushes. Each id of a table appears once, in the order of its first appearance.
// Its gradients are added in f32, in the order of the pushes.
struct ReducedPush {
  struct TableRows {
    std::vector<uint64_t> ids;
    std::vector<float> gradients;  // (U, D)
  };

  std::vector<TableRows> tables;
  std::vector<PushGroup> groups;  // Spans of `tables`.
};

// pushes: of one step. A table's learning rate is that of the first push with the table.
// Cost: a hash table of the ids.
std::shared_ptr<const ReducedPush> ReducePushes(std::span<const HeldPush> pushes);

}  // namespace simurgh
