#include "table/eviction.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {

uint64_t RecencyQueue::ReservationFor(uint64_t capacity_rows) {
  // Full chunks, a partly filled one per bucket, and one for a row in transit.
  return (capacity_rows / kRowsPerChunk + kBuckets + 2) * sizeof(Chunk);
}

uint64_t RecencyQueue::BytesFor(uint64_t rows, bool evicts) {
  // Rows of one step share chunks, those of many steps have one in each bucket.
  const uint64_t partial = std::min<uint64_t>(rows, kBuckets) / 2;
  return ((rows - partial) / kRowsPerChunk + partial) * sizeof(Chunk) + sizeof(ring_) +
         (evicts ? std::min<uint64_t>(rows, kSortLimit) * sizeof(Ready) : 0);
}

RecencyQueue::RecencyQueue(Arena& arena, uint64_t capacity_rows, RowField<uint32_t> stamps,
                           RowField<uint64_t> ids)
    : stamps_(stamps),
      ids_(ids),
      region_(arena, ReservationFor(capacity_rows)),
      ready_limit_(std::min<uint64_t>(capacity_rows, kSortLimit)) {}

uint64_t RecencyQueue::bytes_used() const {
  return region_.used_bytes() + sizeof(ring_) + ready_.capacity() * sizeof(Ready);
}

uint32_t RecencyQueue::PopOldest(uint32_t now) {
  for (;;) {
    while (!ready_.empty()) {
      const Ready entry = ready_.back();
      ready_.pop_back();
      const uint32_t row = RowOf(entry);
      const uint32_t stamp = stamps_(row);
      if (stamp == StampOf(entry)) return row;
      Add(row, stamp);
    }
    ready_end_ = 0;
    TakeOldestBucket(now);
  }
}

void RecencyQueue::Clear() {
  for (Bucket& bucket : ring_) {
    while (bucket.rows > 0) {
      bucket.rows -= RowsInFirst(bucket);
      DropFirstChunk(bucket);
    }
  }
  ring_rows_ = 0;
  ready_.clear();
  ready_end_ = 0;
  shift_ = 0;
}

void RecencyQueue::AddReady(uint32_t row, uint32_t stamp) {
  if (ready_.size() == ready_limit_) {
    ready_end_ = 0;
    return Add(row, stamp);
  }
  const Ready added = ReadyOf(stamp, Mix64(ids_(row)), row);
  const auto is_newer = [](const Ready& a, const Ready& b) {
    return std::tie(a.hi, a.lo) > std::tie(b.hi, b.lo);
  };
  ready_.insert(std::ranges::upper_bound(ready_, added, is_newer), added);
}

void RecencyQueue::AddOutside(uint32_t row, uint32_t stamp) {
  uint64_t number = stamp >> shift_;
  if (ring_rows_ == 0) front_ = back_ = number;
  if (number >= front_ + kBuckets) AdvanceFront();
  while (std::max(back_, number) - std::min(front_, number) >= kBuckets) {
    Coarsen();
    number = stamp >> shift_;
  }
  // A row from ready_ may be older than all rows in the ring.
  front_ = std::min(front_, number);
  back_ = std::max(back_, number);
  Push(bucket(number), row);
  ++ring_rows_;
}

void RecencyQueue::Push(Bucket& bucket, uint32_t row) {
  const uint32_t at = bucket.rows % kRowsPerChunk;
  if (at == 0) {
    const uint32_t name = TakeChunk();
    chunk(name).next = bucket.first;
    if (bucket.first == 0) bucket.last = name;
    bucket.first = name;
  }
  chunk(bucket.first).rows[at] = row;
  ++bucket.rows;
}

uint32_t RecencyQueue::TakeChunk() {
  if (free_chunks_ == 0) {
    return static_cast<uint32_t>(region_.Allocate(sizeof(Chunk)) / sizeof(Chunk)) + 1;
  }
  const uint32_t name = free_chunks_;
  free_chunks_ = chunk(name).next;
  return name;
}

void RecencyQueue::DropFirstChunk(Bucket& bucket) {
  const uint32_t name = bucket.first;
  bucket.first = chunk(name).next;
  if (bucket.first == 0) bucket.last = 0;
  chunk(name).next = free_chunks_;
  free_chunks_ = name;
}

void RecencyQueue::Join(Bucket& into, Bucket& from) {
  if (from.rows == 0) return;
  if (into.rows == 0) {
    into = from;
    return;
  }
  if (const uint32_t partial = RowsInFirst(from); partial < kRowsPerChunk) {
    const Chunk rest = chunk(from.first);
    DropFirstChunk(from);
    from.rows -= partial;
    for (uint32_t i = 0; i < partial; ++i) Push(into, rest.rows[i]);
  }
  if (from.rows == 0) return;
  chunk(into.last).next = from.first;
  into.last = from.last;
  into.rows += from.rows;
}

// Requires an entry in the ring.
void RecencyQueue::AdvanceFront() {
  while (bucket(front_).rows == 0) ++front_;
}

void RecencyQueue::Coarsen() {
  std::array<Bucket, kBuckets> joined;
  for (uint64_t number = front_; number <= back_; ++number) {
    Join(joined[number / 2 % kBuckets], bucket(number));
  }
  ring_ = joined;
  front_ /= 2;
  back_ /= 2;
  ++shift_;
}

// Afterwards, entries of the upper half of a bucket are one bucket too early. TakeOldestBucket()
// files them again, like those of rows used since.
void RecencyQueue::Refine(uint32_t now) {
  std::array<Bucket, kBuckets> spread;
  for (uint64_t number = front_; number <= back_; ++number) {
    spread[number * 2 % kBuckets] = bucket(number);
  }
  ring_ = spread;
  front_ *= 2;
  --shift_;
  back_ = std::min<uint64_t>(back_ * 2 + 1, now >> shift_);
}

// Leaves ready_ empty when all rows of the bucket were used since. Requires an entry in the ring.
void RecencyQueue::TakeOldestBucket(uint32_t now) {
  SIMURGH_CHECK_LT(uint64_t{0}, ring_rows_) << "eviction queue: empty";
  if (ready_.capacity() < ready_limit_) ready_.reserve(ready_limit_);
  AdvanceFront();
  // The ring must cover every stamp, so that refiling rows does not move the oldest bucket.
  while ((now >> shift_) - front_ >= kBuckets) Coarsen();
  while (shift_ > 0 && (now >> shift_) - front_ < kBuckets / 4) Refine(now);
  Bucket& oldest = bucket(front_);
  while (oldest.rows > 0 && ready_.size() + RowsInFirst(oldest) <= ready_limit_) {
    const Chunk taken = chunk(oldest.first);
    const uint32_t count = RowsInFirst(oldest);
    DropFirstChunk(oldest);
    oldest.rows -= count;
    ring_rows_ -= count;
    if (oldest.rows > 0) {
      for (uint32_t row : chunk(oldest.first).rows) stamps_.Prefetch(row);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t stamp = stamps_(taken.rows[i]);
      const uint64_t number = stamp >> shift_;
      // Earlier: a cold row that a push has brought back, in the place of an expired one.
      if (number <= front_) {
        ready_.push_back(ReadyOf(stamp, Mix64(ids_(taken.rows[i])), taken.rows[i]));
        continue;
      }
      Push(bucket(number), taken.rows[i]);
      ++ring_rows_;
      back_ = std::max(back_, number);
    }
  }
  if (oldest.rows > 0) return;
  if (ready_.empty()) return;
  sort_(ready_.data(), ready_.size(), hwy::SortDescending());
  ready_end_ = uint64_t{StampOf(ready_.front())} + 1;
}

Expiry::Expiry(const EvictionConfig& config) : config_(config) {
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  if (config_.idle_steps > 0) shortest = config_.idle_steps;
  if (config_.low_use.below > 0) {
    shortest = std::min<uint64_t>(shortest, config_.low_use.idle_steps);
  }
  if (config_.small_norm.below > 0) {
    shortest = std::min<uint64_t>(shortest, config_.small_norm.idle_steps);
  }
  if (shortest < std::numeric_limits<uint64_t>::max()) shortest_idle_steps_ = shortest;
  active_ = shortest_idle_steps_ > 0 || timed();
}

void Expiry::Advance(uint64_t stamp, Clock::time_point now) {
  if (timed()) AdvanceTime(stamp, now);
  newest_ = stamp;
  live_from_ = idle_before_;
  if (shortest_idle_steps_ > 0 && stamp > shortest_idle_steps_) {
    live_from_ = std::max(live_from_, stamp - shortest_idle_steps_);
  }
}

// Rows with an older stamp were last used before `now`.
void Expiry::AdvanceTime(uint64_t stamp, Clock::time_point now) {
  const bool due = count_ == 0 || now - notes_[(first_ + count_ - 1) % notes_.size()].time >=
                                      config_.idle_time / kNotes;
  if (due && count_ < notes_.size()) {
    notes_[(first_ + count_) % notes_.size()] = {now, stamp};
    ++count_;
  }
  while (count_ > 0 && now - notes_[first_].time >= config_.idle_time) {
    idle_before_ = notes_[first_].stamp;
    first_ = (first_ + 1) % notes_.size();
    --count_;
  }
}

}  // namespace simurgh
