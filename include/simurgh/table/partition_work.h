#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Requests that a partition processes in pieces, interleaved with pieces of other requests. Without
// pauses they equal Partition::Pull and Partition::Push.
//
// Threads: the partition's. Lifetime: the partition, `groups` and the memory that they refer to
// must outlive the work.

// A pull. Each piece acts like a separate pull of its ids: it reads their present rows, and may
// evict an id of a later piece.
class PullWork {
 public:
  PullWork(Partition& partition, LookupMode mode, const StepId& step, uint64_t acknowledged_steps,
           std::span<const PullGroup> groups);

  // Reserves the memory for rows that the next piece of `max_ids` may copy early. False while that
  // is used up: ask again when the writer has released some. Advance() must follow at once.
  bool Ready(size_t max_ids);

  // Reads up to `max_ids` more rows, at least 1. Returns whether all have been read.
  // Errors: see Partition::Pull(). An error ends the pull.
  StatusOr<bool> Advance(size_t max_ids);

  const PullReport& report() const { return report_; }
  // Whether the pull failed because a table with when_full: stop is full.
  bool stopped_by_full_table() const { return stopped_by_full_table_; }
  // How many pieces have waited for memory.
  uint64_t waits() const { return waits_; }

 private:
  StatusOr<bool> ReadPiece(size_t max_ids);
  Status Begin();
  Status Read(const PullGroup& group, size_t count);

  Partition::State& partition_;
  const LookupMode mode_;
  const StepId step_;
  const uint64_t acknowledged_steps_;
  const std::span<const PullGroup> groups_;
  bool begun_ = false;
  bool stopped_by_full_table_ = false;
  uint64_t stamp_ = 0;
  size_t group_ = 0;
  size_t at_ = 0;  // Position in the group.
  CopyMemory* reserved_from_ = nullptr;
  uint64_t reserved_bytes_ = 0;
  bool waiting_ = false;
  uint64_t waits_ = 0;
  PullReport report_;
};

// A push. Its first piece records it, so a push that has begun must be completed, unless
// Partition::Clear() has dropped its rows.
class PushWork {
 public:
  PushWork(Partition& partition, const StepId& step, std::span<const PushGroup> groups);

  // False while a push with the same step is in progress. A push that has begun is always ready.
  bool Ready() const;

  // Applies up to `max_ids` more gradients, at least 1. Returns whether all have been applied.
  // Requires Ready(). Errors: see Partition::Push(). An error ends the push before it changes rows.
  StatusOr<bool> Advance(size_t max_ids);

  const PushReport& report() const { return report_; }

 private:
  Status Begin();
  void Apply(const PushGroup& group, size_t count);

  Partition::State& partition_;
  const StepId step_;
  const std::span<const PushGroup> groups_;
  bool begun_ = false;
  size_t group_ = 0;
  size_t at_ = 0;  // Position in the group.
  PushReport report_;
};

}  // namespace simurgh
