#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "table/partition.h"

// Requests that a partition processes without pauses.

namespace simurgh::testing {

inline StatusOr<PullReport> PullWhole(Partition& partition, LookupMode mode, const StepId& step,
                                      uint64_t acknowledged_steps,
                                      std::span<const PullGroup> groups) {
  PullWork work(partition, mode, step, {.acknowledged_steps = acknowledged_steps}, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(std::numeric_limits<size_t>::max()).status());
  return work.report();
}

inline StatusOr<PushReport> PushWhole(Partition& partition, const StepId& step,
                                      std::span<const PushGroup> groups) {
  PushWork work(partition, step, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(std::numeric_limits<size_t>::max()).status());
  return work.report();
}

}  // namespace simurgh::testing
