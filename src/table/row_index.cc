#include "table/row_index.h"

#include <algorithm>
#include <cmath>

#include "simurgh/base/check.h"
#include "table/primes.h"

namespace simurgh {
namespace {

constexpr double kRowsPerBucketAtCapacity = 6.5;
// Range of the fill limit, see LimitOf().
constexpr uint64_t kRowsPerBucketFrom = 7;
constexpr uint64_t kRowsPerBucketTo = 8;
// 128 KiB: a split moves about 8,000 entries in less than a millisecond.
constexpr uint32_t kMaxSegmentBuckets = 2039;  // A prime.
// Extra depth for uneven hashes.
constexpr uint32_t kExtraDepth = 3;

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
  // All segments of the deepest directory; earlier sizes of the first segment; and doubled segments
  // at the depth limit: at most 64 * 2 / 7 bytes a row, twice with earlier sizes.
  return (segment_bytes << (plan.depth + kExtraDepth)) + 4 * segment_bytes + capacity_rows * 40 +
         sizeof(IndexBucket);
}

RowIndex::RowIndex(Arena& arena, uint64_t capacity_rows, RowField<uint64_t> ids)
    : ids_(ids),
      code_(capacity_rows),
      segment_buckets_(PlanFor(capacity_rows).segment_buckets),
      depth_limit_(PlanFor(capacity_rows).depth + kExtraDepth),
      region_(arena, ReservationFor(capacity_rows)) {
  segments_.push_back({.where = {&first_bucket_, 1, 0}});
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

RowIndex::SegmentState& RowIndex::RoomySegment(uint64_t hash) {
  uint32_t number = SegmentOf(hash).number;
  ++since_split_;
  while (MustGrow(segments_[number])) {
    MakeRoom(number);
    number = SegmentOf(hash).number;
  }
  SegmentState& segment = segments_[number];
  if (segment.renewed_buckets < segment.where.bucket_count) RenewSome(segment);
  return segment;
}

void RowIndex::Insert(uint64_t hash, uint32_t row) {
  SegmentState& segment = RoomySegment(hash);
  Place(segment, {hash, row});
  ++segment.rows;
  ++size_;
}

uint32_t RowIndex::InsertAbsent(uint64_t id, uint64_t hash, uint32_t row) {
  SegmentState& segment = RoomySegment(hash);
  const uint16_t tag = TagOf(hash);
  IndexBucket& bucket = segment.where.buckets[Home(segment.where, hash)];
  for (uint32_t matches = MatchTags(bucket, tag); matches != 0; matches &= matches - 1) {
    const uint32_t other = code_.RowOf(bucket.rows[std::countr_zero(matches)]);
    if (ids_(other) == id) return other;
  }
  if (const uint32_t empty = MatchTags(bucket, 0); empty != 0) {
    // An earlier insertion of the id would have used this slot or one before it.
    const int slot = std::countr_zero(empty);
    bucket.tags[slot] = tag;
    bucket.rows[slot] = code_.Encode(row, /*displaced=*/false, hash, segment.window);
  } else {
    if (const uint32_t other = Find(id, hash); other != kNoRow) return other;
    Place(segment, {hash, row});
  }
  ++segment.rows;
  ++size_;
  return kNoRow;
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
      if (code_.RowOf(bucket.rows[slot]) != row) continue;
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

// Hashes fill all segments equally. Different limits keep them from splitting all at once.
uint64_t RowIndex::LimitOf(const SegmentState& segment) {
  const uint64_t buckets = segment.where.bucket_count;
  const uint64_t spread = buckets * (kRowsPerBucketTo - kRowsPerBucketFrom);
  const uint64_t draw = Mix64(segment.where.number + (uint64_t{segment.depth} << 32)) >> 32;
  return buckets * kRowsPerBucketFrom + (spread * draw >> 32);
}

// While the index doubles, the average distance of splits is segment_buckets_ insertions.
bool RowIndex::MustGrow(const SegmentState& segment) const {
  if (segment.rows < segment.limit) [[likely]]
    return false;
  const bool splits =
      segment.where.bucket_count == segment_buckets_ && segment.depth < depth_limit_;
  if (!splits || since_split_ >= segment_buckets_ / 2) return true;
  return segment.rows >= max_split_at_once();
}

void RowIndex::Place(const SegmentState& segment, const Entry& entry) {
  const uint16_t tag = TagOf(entry.hash);
  const uint32_t home = Home(segment.where, entry.hash);
  uint32_t at = home;
  for (;;) {  // Terminates because a segment is never full.
    IndexBucket& bucket = segment.where.buckets[at];
    if (const uint32_t empty = MatchTags(bucket, 0); empty != 0) {
      const int slot = std::countr_zero(empty);
      bucket.tags[slot] = tag;
      bucket.rows[slot] = code_.Encode(entry.row, at != home, entry.hash, segment.window);
      return;
    }
    ++bucket.overflow;
    at = Next(segment.where, at, tag);
  }
}

}  // namespace simurgh
