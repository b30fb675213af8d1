#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "services/embedding_worker/batch_pool.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Batches between their submit and their acknowledged push (or evaluation pull), by number.
// Bounded in batches and in bytes, where one batch may always come. A batch has its place before it
// takes the memory: what is decoded is in here. One that nobody has asked about for `expiry` is
// dropped, so that a dead nn-worker costs its batches' memory for that long and no longer.
//
// Threads: one owner.
class ForwardBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  // Held for a batch that is about to come; free again if it goes before that.
  // Lifetime: not beyond the buffer.
  class Place {
   public:
    Place(Place&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)), number_(other.number_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (buffer_ != nullptr) buffer_->Remove(number_);
    }

    // Puts the batch there, counted from now on as what it is. Returns its number. Call once.
    uint64_t Fill(std::shared_ptr<BufferedBatch> batch, Clock::time_point now);

   private:
    friend class ForwardBuffer;
    Place(ForwardBuffer& buffer, uint64_t number) : buffer_(&buffer), number_(number) {}

    ForwardBuffer* buffer_;
    uint64_t number_;
  };

  // on_change: called when it holds something else than before.
  ForwardBuffer(size_t capacity_batches, size_t capacity_bytes, std::chrono::milliseconds expiry,
                std::function<void()> on_change);

  // Whether a batch of so many bytes may come.
  bool HasRoom(size_t bytes) const;

  // A place for a batch that will take so many bytes at most. Requires room for it.
  Place Reserve(size_t bytes);

  // What it holds and what it may hold.
  std::string Describe() const;

  // The batch, whose expiry starts anew.
  // Errors: NOT_FOUND: consumed, expired, or never there.
  StatusOr<std::shared_ptr<BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Lets the batch go, if it is there.
  void Remove(uint64_t number);

  // Drops what has expired; how many batches that were. What somebody is at work on does not.
  size_t Expire(Clock::time_point now);

  // Places that are held count as batches, and as what was reserved.
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<BufferedBatch> batch;  // Null: it has not come.
    size_t bytes = 0;
    Clock::time_point last_use;
  };

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds expiry_;
  const std::function<void()> on_change_;
  std::unordered_map<uint64_t, Entry> entries_;
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace simurgh
