#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "services/embedding_worker/batch_pool.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Batches between their submit and their acknowledged push (or evaluation pull), by number.
// Bounded in batches and in bytes, where one batch may always come; and a batch that nobody has
// asked about for `expiry` is dropped, so that a dead nn-worker costs its batches' memory for that
// long and no longer.
//
// Threads: one owner.
class ForwardBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  ForwardBuffer(size_t capacity_batches, size_t capacity_bytes, std::chrono::milliseconds expiry);

  // Whether a batch of so many bytes may come.
  bool HasRoom(size_t bytes) const;

  // The number under which the batch is kept. Requires room for it.
  uint64_t Add(std::shared_ptr<BufferedBatch> batch, Clock::time_point now);

  // What it holds and what it may hold.
  std::string Describe() const;

  // The batch, whose expiry starts anew.
  // Errors: NOT_FOUND: consumed, expired, or never there.
  StatusOr<std::shared_ptr<BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Lets the batch go, if it is there.
  void Remove(uint64_t number);

  // Drops what has expired; how many batches that were.
  size_t Expire(Clock::time_point now);

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<BufferedBatch> batch;
    size_t bytes = 0;
    Clock::time_point last_use;
  };

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds expiry_;
  std::unordered_map<uint64_t, Entry> entries_;
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace simurgh
