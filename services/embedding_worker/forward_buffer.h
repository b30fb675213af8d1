#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "simurgh/base/status.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// A submitted batch with the way to its rows.
struct BufferedBatch {
  std::shared_ptr<const CompactBatch> batch;
  BatchPlan plan;
};

// Batches between their submit and their acknowledged push (or evaluation pull), by number.
// Bounded: a full buffer refuses, and a batch that nobody has asked about for `expiry` is dropped,
// so that a dead nn-worker costs its batches' memory for that long and no longer.
//
// Threads: one owner.
class ForwardBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  ForwardBuffer(size_t capacity_batches, std::chrono::milliseconds expiry);

  // The number under which the batch is kept.
  // Errors: RESOURCE_EXHAUSTED when full: come back later.
  StatusOr<uint64_t> Add(std::shared_ptr<const BufferedBatch> batch, Clock::time_point now);

  // The batch, whose expiry starts anew.
  // Errors: NOT_FOUND: consumed, expired, or never there.
  StatusOr<std::shared_ptr<const BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Lets the batch go, if it is there.
  void Remove(uint64_t number);

  // Drops what has expired; how many batches that were.
  size_t Expire(Clock::time_point now);

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const BufferedBatch> batch;
    Clock::time_point last_use;
  };

  const size_t capacity_batches_;
  const std::chrono::milliseconds expiry_;
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t next_number_ = 1;
};

}  // namespace simurgh
