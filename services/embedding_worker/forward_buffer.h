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

#include "services/embedding_worker/batch_pool.h"
#include "simurgh/base/status.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// Buffers batches, by number, from their submit to their acknowledged push (or evaluation pull). A
// place is reserved before the batch is decoded. Batches unused for `expiry` are dropped, which
// bounds the memory that a dead nn-worker holds.
//
// The limits in batches and bytes exempt needed batches. A batch is needed if fewer than
// `lookahead_steps` earlier batches of its run, rank and purpose are in the buffer.
//
// No deadlock: let s be the first step of a run that some rank has not had acknowledged. Its push
// may wait for every rank's gradients of s, and a reproducible push for this rank's pulls up to
// s + lookahead_steps - 1. So only the submission of a step t < s + lookahead_steps can block s;
// earlier submissions cannot, since ranks submit in step order. The rank's unacknowledged steps
// before t start at s, so they are fewer than `lookahead_steps`; acknowledged batches have already
// left the buffer. Hence t is needed and is admitted. The same holds for retries and for batches
// resubmitted after a worker's death. An evaluation waits only for its own batches: its first
// unpulled batch has no earlier one in the buffer. Batches of a lost connection count as earlier
// until they expire. Calls that free space cannot be blocked, since a waiting submission has its
// own connection (PeerClients).
//
// Bounds: batches admitted with room are within the limits. Of the exempt batches, at most
// `lookahead_steps` of a rank and purpose are kept: the next one evicts the last of them, and the
// trainer resubmits it. Calls in progress on it complete, and keep its memory until then. The
// evicted batch is not an earlier one, unless of another run, so its eviction blocks no step. It
// occurs only if batches arrive out of order, after a worker's death.
//
// Threads: one owner.
class ForwardBuffer {
 public:
  using Clock = std::chrono::steady_clock;

  // Reserves space for a batch; frees it unless filled.
  // Lifetime: the buffer outlives it.
  class Place {
   public:
    Place(Place&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)), number_(other.number_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (buffer_ != nullptr) buffer_->Remove(number_);
    }

    // Stores the batch and counts its actual size. Returns its number, which is invalid if a needed
    // batch has evicted the reservation. Call once.
    uint64_t Fill(std::shared_ptr<BufferedBatch> batch, Clock::time_point now);

   private:
    friend class ForwardBuffer;
    Place(ForwardBuffer& buffer, uint64_t number) : buffer_(&buffer), number_(number) {}

    ForwardBuffer* buffer_;
    uint64_t number_;
  };

  // on_change: called whenever the contents change.
  ForwardBuffer(size_t capacity_batches, size_t capacity_bytes, std::chrono::milliseconds expiry,
                std::function<void()> on_change);

  // Whether a batch of this size is within the limits.
  bool HasRoom(size_t bytes) const;
  // Whether a batch is admitted even without room.
  bool IsExemptFromLimit(const SubmitOptions& terms) const;

  // Reserves space for at most `bytes`. Requires HasRoom or IsExemptFromLimit.
  Place Reserve(const SubmitOptions& terms, size_t bytes);

  // Usage and limits, for messages.
  std::string Describe() const;

  // Returns the batch and restarts its expiry.
  // Errors: NOT_FOUND if it was consumed, expired, evicted, or never existed.
  StatusOr<std::shared_ptr<BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Removes the batch. Returns false if it is absent.
  bool Remove(uint64_t number);

  // Drops expired batches that are not in use; returns their number.
  size_t Expire(Clock::time_point now);

  // Reservations count as batches of their reserved size.
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  // Orders the batches of a rank.
  struct Order {
    uint32_t rank = 0;
    LookupMode purpose = LookupMode::kTrain;
    uint64_t run = 0;
    uint64_t step = 0;
    uint64_t number = 0;  // From 1.

    auto operator<=>(const Order&) const = default;
  };

  struct Entry {
    Order order;
    std::shared_ptr<BufferedBatch> batch;  // Null: only reserved.
    size_t bytes = 0;
    Clock::time_point last_use;
  };

  using Entries = std::unordered_map<uint64_t, Entry>;

  // Before all batches of these terms' run, rank, purpose and step.
  static Order Before(const SubmitOptions& terms);
  // Evicts the last exempt batch if their maximum number is reached.
  void MakeWay(const SubmitOptions& terms);
  void Erase(Entries::iterator entry);

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds expiry_;
  const std::function<void()> on_change_;
  Entries entries_;
  std::set<Order> order_;      // Of all.
  std::set<Order> unbounded_;  // Admitted without room.
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace simurgh
