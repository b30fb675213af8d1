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

// Batches between their submit and their acknowledged push (or evaluation pull), by number. A batch
// has its place before it takes the memory: what is decoded is in here. One that nobody has asked
// about for `expiry` is dropped, so that a dead nn-worker costs its batches' memory for that long
// and no longer.
//
// Bounded in batches and in bytes, but for batches that are needed: such a one comes whatever is
// here. Needed is a batch when fewer than its `together` earlier ones of its run, rank and purpose
// are here.
//
// Why nobody waits for ever. Let s be the first step of a run that some rank has not had
// acknowledged. Its push may wait for each rank's gradients of s (dense sums; servers that hold a
// step's pushes), and a reproducible one for this rank's pulls up to s + together - 1. So all that
// can hold s up is the submission of a step t < s + together of some rank; an earlier submission
// does not, as ranks submit in the order of the steps. The earlier steps of that rank that are not
// acknowledged are from s on, hence fewer than `together`, whichever workers they are with; the
// acknowledged ones have left this buffer before anybody heard of it. So t is needed where it
// waits, and comes. A failed call is made again, and so is the submission of a batch that a dead
// worker had, for which the same holds. An evaluation waits for its own batches alone: its first
// one that is not pulled has no earlier one here, as they leave with their pull. What a lost
// connection has left here counts as an earlier one until it expires, and no longer. And whatever
// makes room comes to the worker: a submission that waits has a connection of its own
// (PeerClients).
//
// Why the bounds hold, up to the needed. Batches that had room when they came are within them: they
// were so, all together, when the last one of them came. Of those that had none, at most `together`
// of a rank and purpose are here: when another one comes, the last one of them goes, which its
// trainer finds out and submits again (calls at work on it end, and keep its memory until then). It
// is not an earlier one, unless of another run, so its going holds nobody up; and it happens only
// where batches have come out of order: after a worker's death.
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

    // Puts the batch there, counted from now on as what it is. Returns its number, which is good
    // for nothing if a batch that was needed more has taken the place. Call once.
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

  // Whether a batch of so many bytes is within the bounds.
  bool HasRoom(size_t bytes) const;
  // Whether a batch must come, room or not.
  bool IsExemptFromLimit(const SubmitOptions& terms) const;

  // A place for a batch that will take so many bytes at most. Requires room or need.
  Place Reserve(const SubmitOptions& terms, size_t bytes);

  // What it holds and what it may hold.
  std::string Describe() const;

  // The batch, whose expiry starts anew.
  // Errors: NOT_FOUND: consumed, expired, gone for one that was needed more, or never there.
  StatusOr<std::shared_ptr<BufferedBatch>> Find(uint64_t number, Clock::time_point now);

  // Lets the batch go; false: it is not there.
  bool Remove(uint64_t number);

  // Drops what has expired; how many batches that were. What somebody is at work on does not.
  size_t Expire(Clock::time_point now);

  // Destinations that are held count as batches, and as what was reserved.
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  // Where a batch stands among those of its rank.
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
    std::shared_ptr<BufferedBatch> batch;  // Null: it has not come.
    size_t bytes = 0;
    Clock::time_point last_use;
  };

  using Entries = std::unordered_map<uint64_t, Entry>;

  // Before all batches of these terms' run, rank, purpose and step.
  static Order Before(const SubmitOptions& terms);
  // Lets the last of those go that have come without room, if they are as many as may be.
  void MakeWay(const SubmitOptions& terms);
  void Erase(Entries::iterator entry);

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds expiry_;
  const std::function<void()> on_change_;
  Entries entries_;
  std::set<Order> order_;      // Of all.
  std::set<Order> unbounded_;  // Of those that there was no room for.
  size_t bytes_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace simurgh
