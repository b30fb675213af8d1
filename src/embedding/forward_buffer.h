#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "embedding/batch_calls.h"
#include "embedding/batch_pool.h"

namespace simurgh {

// Batches between their submit and their acknowledged push (or evaluation pull), by number. A batch
// reserves space before it is decoded. A batch unused for `expiry` is dropped, which frees the
// memory of a dead nn-worker's batches.
//
// Batches and bytes are limited. A batch is exempt from the limit when the buffer holds fewer than
// `lookahead_steps` earlier batches of its run, rank and mode.
//
// No deadlock. Let s be the first step of a run that some rank has not had acknowledged. Its push
// may wait for all ranks' gradients of s (dense sums; servers that hold a step's pushes). In a
// reproducible run it may also wait for its rank's pulls up to s + lookahead_steps - 1. So s waits
// at most for the submit of a step t < s + lookahead_steps of some rank: ranks submit in the order
// of steps. That rank's earlier pending steps start at s, so there are fewer than lookahead_steps,
// over all workers; acknowledged steps have left the buffer. So t is exempt and is admitted. The
// same holds for retries, and for resubmits after a worker's death. An evaluation waits only for
// its own batches: its first pending one has no earlier one, since a pull removes its batch. The
// batches of a lost connection count as earlier ones until they expire. A waiting submit has its
// own connection (PeerClients), so it does not block the calls that free space.
//
// The limit holds, except for exempt batches. Batches admitted within the limit were within it
// when the last of them was admitted. Of batches admitted beyond it, the buffer holds at most
// `lookahead_steps` per rank and mode: the next one evicts the last, whose trainer submits it
// again. An evicted batch is not an earlier one, unless it is of another run, so its eviction
// delays no step. Evictions only occur when batches arrive out of order, after a worker's death.
//
// Threads: one owner.
class ForwardBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  // Space reserved for a batch; freed by the destructor unless filled.
  // Lifetime: the buffer must outlive it.
  class Place {
   public:
    Place(Place&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)), number_(other.number_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (buffer_ != nullptr) buffer_->Remove(number_);
    }

    // Stores the batch and counts its actual size. Returns its number. If an exempt batch has
    // evicted the reservation, drops the batch, and Find fails. Call once.
    uint64_t Fill(std::shared_ptr<BufferedBatch> batch, Clock::time_point now);

   private:
    friend class ForwardBuffer;
    Place(ForwardBuffer& buffer, uint64_t number) : buffer_(&buffer), number_(number) {}

    ForwardBuffer* buffer_;
    uint64_t number_;
  };

  // on_change: called after every change of size() or bytes(), but for Expire.
  ForwardBuffer(size_t capacity_batches, size_t capacity_bytes, std::chrono::milliseconds expiry,
                std::function<void()> on_change);

  bool HasRoom(size_t bytes) const;
  bool IsExemptFromLimit(const SubmitOptions& options) const;

  // bytes: upper bound. Drops batches of older starts of the run's training (base/step_id.h).
  // Requires HasRoom or IsExemptFromLimit.
  Place Reserve(const SubmitOptions& options, size_t bytes);

  // Usage and limits, for errors.
  std::string Describe() const;

  // Returns the batch and restarts its expiry.
  // Errors: NOT_FOUND for a batch that was consumed, has expired, was evicted or never existed.
  StatusOr<std::shared_ptr<BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Returns false if there is no such batch.
  bool Remove(uint64_t number);

  // Drops expired batches that no call uses. Returns their number.
  size_t Expire(Clock::time_point now);

  // Batches and their bytes, including reservations.
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Order {
    uint32_t rank = 0;
    LookupMode mode = LookupMode::kTrain;
    uint64_t run = 0;
    uint64_t step = 0;
    uint64_t number = 0;  // Counts batches from 1.

    auto operator<=>(const Order&) const = default;
  };

  struct Entry {
    Order order;
    std::shared_ptr<BufferedBatch> batch;  // Null: the place is reserved.
    size_t bytes = 0;
    Clock::time_point last_use;
  };

  using Entries = std::unordered_map<uint64_t, Entry>;

  // A lower bound of the order of batches with these options.
  static Order Before(const SubmitOptions& options);
  // Evicts the last exempt batch of this rank and mode if there are lookahead_steps of them.
  void EvictExempt(const SubmitOptions& options);
  void DropSuperseded(uint64_t run);
  void Erase(Entries::iterator entry);

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds expiry_;
  const std::function<void()> on_change_;
  Entries entries_;
  std::set<Order> order_;   // All batches.
  std::set<Order> exempt_;  // Batches admitted beyond the limit.
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
  uint64_t last_run_ = 0;  // Run of the last Reserve().
};

}  // namespace simurgh
