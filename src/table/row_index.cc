#include "table/row_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

constexpr double kRowsPerBucketAtCapacity = 6.5;
// Where a segment is full, see LimitOf().
constexpr uint64_t kRowsPerBucketFrom = 7;
constexpr uint64_t kRowsPerBucketTo = 9;
// 128 KiB: a split moves some 8,000 entries, less than a millisecond.
constexpr uint32_t kMaxSegmentBuckets = 2039;  // A prime.
// Splits beyond the planned number that uneven hashes may cause.
constexpr uint32_t kExtraDepth = 3;

bool IsPrime(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

// The smallest prime from `number` on; 1 stays.
uint32_t PrimeFrom(uint32_t number) {
  while (!IsPrime(number)) ++number;
  return number;
}

struct Plan {
  uint32_t depth;
  uint32_t segment_buckets;
};

Plan PlanFor(uint64_t capacity_rows) {
  const double buckets = static_cast<double>(capacity_rows) / kRowsPerBucketAtCapacity;
  uint32_t depth = 0;
  while (std::ldexp(buckets, -static_cast<int>(depth)) > kMaxSegmentBuckets) ++depth;
  return {
      depth,
      PrimeFrom(static_cast<uint32_t>(std::ceil(std::ldexp(buckets, -static_cast<int>(depth)))))};
}

}  // namespace

uint64_t RowIndex::ReservationFor(uint64_t capacity_rows) {
  const Plan plan = PlanFor(capacity_rows);
  const uint64_t segment_bytes = plan.segment_buckets * sizeof(IndexBucket);
  // Every segment of the deepest directory; the smaller ones that the first one was; and doubled
  // segments at the depth limit, where a row takes at most 64 * 2 / 7 bytes, twice with its past.
  return (segment_bytes << (plan.depth + kExtraDepth)) + 4 * segment_bytes + capacity_rows * 40 +
         sizeof(IndexBucket);
}

RowIndex::RowIndex(Arena& arena, uint64_t capacity_rows, RowField<uint64_t> ids)
    : ids_(ids),
      segment_buckets_(PlanFor(capacity_rows).segment_buckets),
      depth_limit_(PlanFor(capacity_rows).depth + kExtraDepth),
      region_(arena, ReservationFor(capacity_rows)) {
  segments_.push_back({.where = {NewBuckets(1), 1, 0}});
  segments_[0].limit = LimitOf(segments_[0]);
  directory_.push_back(segments_[0].where);
}

uint64_t RowIndex::bytes_used() const {
  return region_.used_bytes() + directory_.capacity() * sizeof(Segment) +
         segments_.capacity() * sizeof(SegmentState);
}

IndexBucket* RowIndex::NewBuckets(uint32_t count) {
  return reinterpret_cast<IndexBucket*>(region_.base() +
                                        region_.Allocate(count * sizeof(IndexBucket)));
}

void RowIndex::Insert(uint64_t hash, uint32_t row) {
  uint32_t number = SegmentOf(hash).number;
  while (segments_[number].rows >= segments_[number].limit) {
    MakeRoom(number);
    number = SegmentOf(hash).number;
  }
  Place(segments_[number].where, {hash, row});
  ++segments_[number].rows;
  ++size_;
}

void RowIndex::Erase(uint64_t hash, uint32_t row) {
  const Segment segment = SegmentOf(hash);
  const uint16_t tag = TagOf(hash);
  uint32_t at = Home(segment, hash);
  for (uint32_t probes = 0;; ++probes) {
    SIMURGH_CHECK_LT(probes, segment.bucket_count) << "index: no row " << row;
    IndexBucket& bucket = segment.buckets[at];
    for (uint32_t matches = MatchTags(bucket, tag); matches != 0; matches &= matches - 1) {
      const int slot = std::countr_zero(matches);
      if (bucket.rows[slot] != row) continue;
      bucket.tags[slot] = 0;
      --segments_[segment.number].rows;
      --size_;
      return;
    }
    SIMURGH_CHECK_LT(0U, bucket.overflow) << "index: no row " << row;
    --bucket.overflow;
    at = Next(segment, at, tag);
  }
}

// Hashes fill all segments alike. Were they full at the same load, they would all split at once.
uint64_t RowIndex::LimitOf(const SegmentState& segment) {
  const uint64_t buckets = segment.where.bucket_count;
  const uint64_t spread = buckets * (kRowsPerBucketTo - kRowsPerBucketFrom);
  const uint64_t draw = Mix64(segment.where.number + (uint64_t{segment.depth} << 32)) >> 32;
  return buckets * kRowsPerBucketFrom + (spread * draw >> 32);
}

void RowIndex::Place(const Segment& segment, const Entry& entry) {
  const uint16_t tag = TagOf(entry.hash);
  uint32_t at = Home(segment, entry.hash);
  for (;;) {  // Ends: a segment is never full.
    IndexBucket& bucket = segment.buckets[at];
    if (const uint32_t empty = MatchTags(bucket, 0); empty != 0) {
      const int slot = std::countr_zero(empty);
      bucket.tags[slot] = tag;
      bucket.rows[slot] = entry.row;
      return;
    }
    ++bucket.overflow;
    at = Next(segment, at, tag);
  }
}

// All entries of a segment with their hashes; its buckets are empty after.
std::vector<RowIndex::Entry> RowIndex::TakeOut(const SegmentState& segment) {
  constexpr size_t kAhead = 16;
  std::vector<Entry> entries;
  entries.reserve(segment.rows);
  IndexBucket* buckets = segment.where.buckets;
  for (uint32_t at = 0; at < segment.where.bucket_count; ++at) {
    for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
      if (buckets[at].tags[slot] != 0) entries.push_back({0, buckets[at].rows[slot]});
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kAhead < entries.size()) ids_.Prefetch(entries[i + kAhead].row);
    entries[i].hash = Hash(ids_(entries[i].row));
  }
  std::memset(static_cast<void*>(buckets), 0, segment.where.bucket_count * sizeof(IndexBucket));
  return entries;
}

void RowIndex::MakeRoom(uint32_t number) {
  SegmentState& segment = segments_[number];
  if (segment.where.bucket_count < segment_buckets_) {
    Grow(segment, std::min(PrimeFrom(2 * segment.where.bucket_count), segment_buckets_));
  } else if (segment.depth < depth_limit_) {
    Split(number);
  } else {
    Grow(segment, PrimeFrom(2 * segment.where.bucket_count));
  }
}

// The old buckets stay behind unused: in all at most as many as the segment has now.
void RowIndex::Grow(SegmentState& segment, uint32_t bucket_count) {
  const std::vector<Entry> entries = TakeOut(segment);
  segment.where.buckets = NewBuckets(bucket_count);
  segment.where.bucket_count = bucket_count;
  segment.limit = LimitOf(segment);
  for (const Entry& entry : entries) Place(segment.where, entry);
  WriteDirectory(segment, entries.front().hash);
}

void RowIndex::Split(uint32_t number) {
  const std::vector<Entry> entries = TakeOut(segments_[number]);
  const uint32_t bit = 63 - segments_[number].depth;
  ++segments_[number].depth;
  if (segments_[number].depth > depth_) {
    std::vector<Segment> doubled(directory_.size() * 2);
    for (size_t i = 0; i < doubled.size(); ++i) doubled[i] = directory_[i / 2];
    directory_.swap(doubled);
    ++depth_;
  }
  const auto sibling_number = static_cast<uint32_t>(segments_.size());
  segments_.push_back({.where = {NewBuckets(segment_buckets_), segment_buckets_, sibling_number},
                       .depth = segments_[number].depth});
  SegmentState& segment = segments_[number];
  SegmentState& sibling = segments_[sibling_number];
  segment.rows = 0;
  segment.limit = LimitOf(segment);
  sibling.limit = LimitOf(sibling);
  for (const Entry& entry : entries) {
    SegmentState& side = (entry.hash >> bit & 1) != 0 ? sibling : segment;
    Place(side.where, entry);
    ++side.rows;
  }
  WriteDirectory(sibling, entries.front().hash | uint64_t{1} << bit);
}

// Points the directory entries of a segment at it; `any_hash` begins with the bits it stands for.
void RowIndex::WriteDirectory(const SegmentState& segment, uint64_t any_hash) {
  const size_t count = size_t{1} << (depth_ - segment.depth);
  const size_t first = ((any_hash >> 1) >> (63 - depth_)) / count * count;
  std::fill_n(directory_.begin() + static_cast<ptrdiff_t>(first), count, segment.where);
}

}  // namespace simurgh
