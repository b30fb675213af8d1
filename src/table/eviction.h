#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <hwy/contrib/sort/vqsort.h>

#include "config/table_config.h"
#include "table/arena.h"
#include "table/row_layout.h"
#include "table/table.h"

namespace simurgh {

// Maps steps of trainers to stamps that never decrease. Within a run, stamps advance with the
// steps. The first step of a new run gets the next stamp, whatever its number.
//
// Threads: one owner.
class RecencyClock {
 public:
  uint64_t Advance(uint64_t run, uint64_t step) {
    if (run != run_) {
      run_ = run;
      first_step_ = step;
      base_ = ++newest_;
    }
    // Ranks may be some steps apart: a step before the first one counts as the first.
    newest_ = std::max(newest_, base_ + (step - std::min(step, first_step_)));
    return newest_;
  }

  // The next run begins after this stamp.
  void ContinueAt(uint64_t stamp) { newest_ = std::max(newest_, stamp); }

 private:
  std::optional<uint64_t> run_;
  uint64_t first_step_ = 0;
  uint64_t base_ = 0;
  uint64_t newest_ = 0;
};

// Finds the least recently used row. Using a row only stores a stamp in its header. Each row has
// one entry in the queue, filed under the stamp at that time. PopOldest() compares the oldest
// entries with the current stamps of their rows: a row used since is filed again, any other is the
// victim.
//
// Entries are in a ring of buckets of 2^shift consecutive stamps each. When the stamps exceed the
// ring, neighbouring buckets are joined and shift grows; when they fill less than a quarter, shift
// shrinks. Neither reads entries. The oldest bucket is taken out and sorted by stamp, then by
// Mix64(id). So victims are exactly least recently used, and do not depend on row numbers, which
// a restored table assigns anew. A bucket of more than kSortLimit entries is not sorted, which
// bounds the delay of a request: ages of its rows differ by less than 1/64 of the oldest row's age,
// and their order depends on row numbers.
//
// Requires that stamps of rows only grow, except across Clear().
//
// Source: the ring is a calendar queue (R. Brown, CACM 31(10), 1988) over the monotone priorities
// of a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 37(2), 1990). Cost: 4.3 bytes a row. Add()
// is O(1); PopOldest() O(1) for each row used since it was filed, amortised against that use.
// Threads: one owner.
class RecencyQueue {
 public:
  static constexpr size_t kSortLimit = 8192;

  RecencyQueue(Arena& arena, uint64_t capacity_rows, RowField<uint32_t> stamps,
               RowField<uint64_t> ids);

  static uint64_t ReservationFor(uint64_t capacity_rows);

  // Estimates bytes_used() of a queue of `rows` rows. evicts: whether rows are evicted for space.
  static uint64_t BytesFor(uint64_t rows, bool evicts);

  // Commits memory for `rows_more` rows. Errors: see ArenaRegion::Commit().
  Status Commit(size_t rows_more) {
    return region_.Commit((rows_more / kRowsPerChunk + kBuckets + 2) * sizeof(Chunk));
  }

  // See ArenaRegion::AddedMemory().
  uint64_t AddedMemory(size_t rows_more) const {
    return region_.AddedMemory((rows_more / kRowsPerChunk + 1) * sizeof(Chunk));
  }

  // Files a row without an entry under its current stamp.
  void Add(uint32_t row) { Add(row, stamps_(row)); }
  // Files a row without an entry, whose header will get this stamp.
  void Add(uint32_t row, uint32_t stamp) {
    if (stamp < ready_end_) [[unlikely]]
      return AddReady(row, stamp);
    const uint64_t number = stamp >> shift_;
    if (ring_rows_ == 0 || number < front_ || number > back_) [[unlikely]]
      return AddOutside(row, stamp);
    Push(bucket(number), row);
    ++ring_rows_;
  }

  // Removes and returns the oldest row. Requires size() > 0 and no stamp after `now`.
  uint32_t PopOldest(uint32_t now);

  // The row that PopOldest() will return after `pops` others, if it is not used until then; kNoRow
  // when unknown. For prefetching.
  uint32_t Upcoming(size_t pops) const {
    return pops < ready_.size() ? RowOf(ready_[ready_.size() - 1 - pops]) : kNoRow;
  }

  // Removes all entries.
  void Clear();

  uint64_t size() const { return ring_rows_ + ready_.size(); }
  uint64_t bytes_used() const;

 private:
  static constexpr uint32_t kBuckets = 256;
  static constexpr uint32_t kRowsPerChunk = 15;

  // One cache line of a bucket. Chunks are named by number + 1; 0 is none.
  struct Chunk {
    uint32_t next;
    uint32_t rows[kRowsPerChunk];
  };
  static_assert(sizeof(Chunk) == 64);

  // A stack of chunks; only the first may be partly filled.
  struct Bucket {
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t rows = 0;
  };

  // An entry taken out of the ring: the bits of stamp, Mix64(id) and row, from high to low. So the
  // order of entries is that of numbers.
  using Ready = hwy::uint128_t;
  static Ready ReadyOf(uint32_t stamp, uint64_t hash, uint32_t row) {
    return {hash << 32 | row, uint64_t{stamp} << 32 | hash >> 32};
  }
  static uint32_t RowOf(const Ready& entry) { return static_cast<uint32_t>(entry.lo); }
  static uint32_t StampOf(const Ready& entry) { return static_cast<uint32_t>(entry.hi >> 32); }

  Chunk& chunk(uint32_t name) const { return reinterpret_cast<Chunk*>(region_.base())[name - 1]; }
  Bucket& bucket(uint64_t number) { return ring_[number % kBuckets]; }
  static uint32_t RowsInFirst(const Bucket& bucket) {
    return bucket.rows == 0 ? 0 : (bucket.rows - 1) % kRowsPerChunk + 1;
  }

  // Implements Add() for a stamp among those in ready_. Such stamps occur if the capacity is below
  // the rows of one step.
  void AddReady(uint32_t row, uint32_t stamp);
  // Implements Add() for a stamp outside the ring.
  void AddOutside(uint32_t row, uint32_t stamp);
  void Push(Bucket& bucket, uint32_t row);
  uint32_t TakeChunk();
  void DropFirstChunk(Bucket& bucket);
  void Join(Bucket& into, Bucket& from);
  void Coarsen();
  void Refine(uint32_t now);
  void AdvanceFront();
  void TakeOldestBucket(uint32_t now);

  RowField<uint32_t> stamps_;
  RowField<uint64_t> ids_;
  ArenaRegion region_;
  uint32_t free_chunks_ = 0;
  std::array<Bucket, kBuckets> ring_;
  uint64_t ring_rows_ = 0;
  uint32_t shift_ = 0;
  uint64_t front_ = 0;        // No entry is in an earlier bucket.
  uint64_t back_ = 0;         // No entry is in a later bucket.
  std::vector<Ready> ready_;  // The oldest last.
  uint64_t ready_end_ = 0;    // Stamps below belong into ready_; 0 if it is empty or not sorted.
  size_t ready_limit_;
  hwy::Sorter sort_;
};

// Decides which rows have expired by the eviction rules. An expired row is invisible from that step
// on, whether or not its memory has been reclaimed, so results do not depend on the sweep.
//
// idle_time is converted to stamps: the newest stamp is recorded with the time kNotes times per
// idle_time. Rows older than the newest note of idle_time ago have expired, late by at most
// idle_time / kNotes.
//
// Threads: one owner.
class Expiry {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Expiry(const EvictionConfig& config);

  // active() returns whether there is a rule; timed(), whether a rule depends on time.
  bool active() const { return active_; }
  bool timed() const { return config_.idle_time.count() > 0; }

  // Call with every new stamp before CauseOf(). now: used if timed(); must never decrease.
  void Advance(uint64_t stamp, Clock::time_point now);

  // Rows with this stamp or a newer one have not expired.
  uint64_t live_from() const { return live_from_; }

  // Returns why a row with this stamp has expired, or nothing. squared_norm(): of its weights;
  // called only if needed.
  template <typename SquaredNorm>
  std::optional<EvictionCause> CauseOf(uint64_t stamp, uint32_t use_count,
                                       const SquaredNorm& squared_norm) const {
    if (stamp >= live_from_) return std::nullopt;
    const uint64_t age = newest_ - stamp;
    if (config_.idle_steps > 0 && age > config_.idle_steps) return EvictionCause::kIdleSteps;
    if (stamp < idle_before_) return EvictionCause::kIdleTime;
    if (use_count < config_.low_use.below && age > config_.low_use.idle_steps) {
      return EvictionCause::kLowUse;
    }
    const double bound = config_.small_norm.below;
    const bool idle = bound > 0 && age > config_.small_norm.idle_steps;
    if (idle && squared_norm() < bound * bound) return EvictionCause::kSmallNorm;
    return std::nullopt;
  }

 private:
  static constexpr size_t kNotes = 64;

  void AdvanceTime(uint64_t stamp, Clock::time_point now);

  // The newest stamp at that time.
  struct Note {
    Clock::time_point time;
    uint64_t stamp;
  };

  const EvictionConfig config_;
  bool active_ = false;
  uint64_t shortest_idle_steps_ = 0;  // Minimum over all rules that count steps; 0: none.
  uint64_t newest_ = 0;
  uint64_t idle_before_ = 0;  // Rows with an older stamp exceed idle_time.
  uint64_t live_from_ = 0;
  std::array<Note, kNotes + 2> notes_;  // A ring; first_ is the oldest.
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace simurgh
