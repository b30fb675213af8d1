#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Requests that a partition does in pieces, with pieces of others in between. Done without a pause
// they are Partition::Pull and Partition::Push.
//
// Threads: the partition's. Lifetime: the partition, `groups` and what they refer to outlive them.

// A pull. Each piece is as a pull of its own ids: rows are read as they are then, and what a piece
// evicts can be an id of a later one.
class PullWork {
 public:
  PullWork(Partition& partition, LookupMode purpose, const StepId& position,
           uint64_t acknowledged_steps, std::span<const PullGroup> groups);

  // Reads up to `max_ids` more rows, at least 1. Returns whether all have been read.
  // Errors: of Partition::Pull; the pull is then over.
  StatusOr<bool> Advance(size_t max_ids);

  const PullReport& report() const { return report_; }

 private:
  Status Begin();
  Status Read(const PullGroup& group, size_t count);

  Partition::State& partition_;
  const LookupMode purpose_;
  const StepId position_;
  const uint64_t acknowledged_steps_;
  const std::span<const PullGroup> groups_;
  bool begun_ = false;
  uint64_t stamp_ = 0;
  size_t group_ = 0;
  size_t at_ = 0;  // In the group.
  PullReport report_;
};

// A push, which is checked and remembered when it begins, so that from then on it must be brought
// to its end.
class PushWork {
 public:
  PushWork(Partition& partition, const StepId& position, uint32_t part, uint32_t parts,
           std::span<const PushGroup> groups);

  // False while another push must end first: the same one, sent twice, for its answer says that it
  // has been applied; any, where the partition's memory outlives it, for what is kept beside the
  // rows tells of one. A push that has begun is always ready, so somebody is.
  bool Ready() const;

  // Applies up to `max_ids` more gradients, at least 1. Returns whether all have been applied.
  // Requires Ready(). Errors: of Partition::Push, before anything is applied; the push is then
  // over.
  StatusOr<bool> Advance(size_t max_ids);

  const PushReport& report() const { return report_; }

 private:
  Status Begin();
  void Apply(const PushGroup& group, size_t count);
  void End();

  Partition::State& partition_;
  const StepId position_;
  const uint32_t part_;
  const uint32_t parts_;
  const std::span<const PushGroup> groups_;
  bool begun_ = false;
  size_t group_ = 0;
  size_t at_ = 0;  // In the group.
  PushReport report_;
};

}  // namespace simurgh
