#include "table/row_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "table/simd/split_buckets.h"

namespace simurgh {
namespace {

constexpr bool IsPrime(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

// The smallest prime that is at least `number`; 1 for 1.
constexpr uint32_t PrimeFrom(uint32_t number) {
  while (!IsPrime(number)) ++number;
  return number;
}

constexpr double kRowsPerBucketAtCapacity = 6.5;
// Range of the fill limit, see LimitOf().
constexpr uint64_t kRowsPerBucketFrom = 7;
constexpr uint64_t kRowsPerBucketTo = 8;
// 128 KiB: a split moves about 8,000 entries in less than a millisecond.
constexpr uint32_t kMaxSegmentBuckets = 2039;  // A prime.
// Extra depth for uneven hashes.
constexpr uint32_t kExtraDepth = 3;

// Prefetch distance of ids.
constexpr size_t kIdsAhead = 32;
// One bucket per two insertions: there are more than two per bucket between splits.
constexpr uint32_t kInsertionsPerRenewal = 16;
constexpr uint32_t kBucketsPerRenewal = 8;

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
  // The sum of all segments of the deepest directory, earlier sizes of the first segment, and
  // doubled segments at the depth limit: at most 64 * 2 / 7 bytes a row, twice with earlier sizes.
  return (segment_bytes << (plan.depth + kExtraDepth)) + 4 * segment_bytes + capacity_rows * 40 +
         sizeof(IndexBucket);
}

// The growth of MakeRoom(): the first segment to the planned size, then splits of all segments.
uint64_t RowIndex::BytesFor(uint64_t capacity_rows, uint64_t rows) {
  const uint32_t planned = PlanFor(capacity_rows).segment_buckets;
  SegmentState first{.where = {nullptr, 1, 0}};
  uint64_t buckets = 0;
  while (first.where.bucket_count < planned && rows > LimitOf(first)) {
    first.where.bucket_count = std::min(PrimeFrom(2 * first.where.bucket_count), planned);
    buckets += first.where.bucket_count;
  }
  double segments = 1;
  if (first.where.bucket_count == planned && rows > LimitOf(first)) {
    double filled = static_cast<double>(rows) / planned;  // Rows in a bucket.
    for (; filled > kRowsPerBucketTo; filled /= 2) segments *= 2;
    // Limits are spread evenly, so this share has split.
    segments *=
        1 + std::max(0.0, (filled - kRowsPerBucketFrom) / (kRowsPerBucketTo - kRowsPerBucketFrom));
    segments = std::max(segments, 2.0);
  }
  const auto whole = static_cast<uint64_t>(std::llround(segments));
  buckets += (whole - 1) * planned;
  return buckets * sizeof(IndexBucket) +
         std::bit_ceil(whole) * (sizeof(Segment) + sizeof(SegmentState));
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

// Growth of an index: segments grow to the planned size and then split.

// Turnover at constant size fills and splits a few segments in a hundred.
Status RowIndex::Commit(size_t rows_more) {
  constexpr uint64_t kBytesPerRow = 40;
  constexpr uint64_t kMaxExtra = uint64_t{1} << 20;
  const uint64_t most = std::min(segment_buckets_ * sizeof(IndexBucket) * 8, kMaxExtra);
  return region_.Commit(rows_more * kBytesPerRow + region_.used_bytes() / 16 + most);
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

// Computes the hashes of entries from the ids of their rows.
void RowIndex::ReadHashes(std::vector<Entry>& entries) {
  for (size_t i = 0; i < std::min(kIdsAhead, entries.size()); ++i) ids_.Prefetch(entries[i].row);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + kIdsAhead < entries.size()) ids_.Prefetch(entries[i + kIdsAhead].row);
    entries[i].hash = Hash(ids_(entries[i].row));
  }
  growth_steps_ += entries.size();
}

// Removes and returns all entries of a segment with their hashes.
std::vector<RowIndex::Entry> RowIndex::TakeOut(const SegmentState& segment) {
  std::vector<Entry> entries;
  entries.reserve(segment.rows);
  IndexBucket* buckets = segment.where.buckets;
  for (uint32_t at = 0; at < segment.where.bucket_count; ++at) {
    for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
      if (buckets[at].tags[slot] != 0) {
        entries.push_back({0, code_.RowOf(buckets[at].rows[slot])});
      }
    }
  }
  ReadHashes(entries);
  growth_steps_ += entries.size();
  std::memset(static_cast<void*>(buckets), 0, segment.where.bucket_count * sizeof(IndexBucket));
  return entries;
}

// Old buckets stay allocated; their total does not exceed the new bucket_count.
void RowIndex::Grow(SegmentState& segment, uint32_t bucket_count) {
  const std::vector<Entry> entries = TakeOut(segment);
  segment.where.buckets = NewBuckets(bucket_count);
  segment.where.bucket_count = bucket_count;
  segment.limit = LimitOf(segment);
  segment.renewed_buckets = kAllBuckets;
  for (const Entry& entry : entries) Place(segment, entry);
  WriteDirectory(segment);
}

void RowIndex::Split(uint32_t number) {
  since_split_ = 0;
  if (code_.split_bits() == 0) {
    const std::vector<Entry> entries = TakeOut(segments_[number]);
    const uint32_t sibling = AddSibling(number);
    segments_[number].rows = 0;
    PlaceBySide(number, sibling, entries);
    return;
  }
  Renew(segments_[number], segment_buckets_);
  const uint32_t sibling = AddSibling(number);
  for (const uint32_t half : {number, sibling}) {
    SegmentState& segment = segments_[half];
    segment.window = code_.WindowOf(segment.depth);
    if (segment.window == segment.depth) segment.renewed_buckets = 0;
  }
  SplitByBits(number, sibling);
}

// Increments the depth of the segment and adds an empty one for the other half of its hashes.
uint32_t RowIndex::AddSibling(uint32_t number) {
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
                       .depth = segments_[number].depth,
                       .prefix = segments_[number].prefix | uint64_t{1} << bit});
  SegmentState& segment = segments_[number];
  segment.limit = LimitOf(segment);
  segments_[sibling_number].limit = LimitOf(segments_[sibling_number]);
  WriteDirectory(segments_[sibling_number]);
  return sibling_number;
}

void RowIndex::PlaceBySide(uint32_t number, uint32_t sibling, const std::vector<Entry>& entries) {
  const uint32_t bit = 64 - segments_[number].depth;
  for (const Entry& entry : entries) {
    SegmentState& side = segments_[(entry.hash >> bit & 1) != 0 ? sibling : number];
    Place(side, entry);
    ++side.rows;
  }
}

// Entries in their home bucket keep their place in either half. Displaced entries are placed anew,
// which also rebuilds the overflow counts.
void RowIndex::SplitByBits(uint32_t number, uint32_t sibling) {
  SegmentState& low = segments_[number];
  SegmentState& high = segments_[sibling];
  std::vector<uint32_t> displaced(low.rows);
  const SplitCounts counts =
      SplitBuckets({code_.DisplacedMask(), code_.SplitMask(low.depth - 1)},
                   {low.where.buckets, segment_buckets_}, high.where.buckets, displaced.data());
  low.rows = counts.low;
  high.rows = counts.high;
  growth_steps_ += counts.low + counts.high + counts.displaced;
  std::vector<Entry> entries(counts.displaced);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].row = code_.RowOf(displaced[i]);
  ReadHashes(entries);
  PlaceBySide(number, sibling, entries);
}

void RowIndex::RenewSome(SegmentState& segment) {
  if (++segment.since_renewal < kInsertionsPerRenewal) return;
  segment.since_renewal = 0;
  Renew(segment, kBucketsPerRenewal);
}

// Writes the split bits of the next window into the slots of up to `count` more buckets.
void RowIndex::Renew(SegmentState& segment, uint32_t count) {
  IndexBucket* const buckets = segment.where.buckets;
  const uint32_t end = segment.where.bucket_count;
  for (; count > 0 && segment.renewed_buckets < end; count -= std::min(count, kBucketsPerRenewal)) {
    const uint32_t first = segment.renewed_buckets;
    const uint32_t last = std::min(first + std::min(count, kBucketsPerRenewal), end);
    for (uint32_t at = first; at < last; ++at) {
      for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
        if (buckets[at].tags[slot] != 0) ids_.Prefetch(code_.RowOf(buckets[at].rows[slot]));
      }
    }
    for (uint32_t at = first; at < last; ++at) RenewBucket(segment, buckets[at]);
    segment.renewed_buckets = last;
  }
}

void RowIndex::RenewBucket(const SegmentState& segment, IndexBucket& bucket) {
  for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
    if (bucket.tags[slot] == 0) continue;
    const uint32_t row = code_.RowOf(bucket.rows[slot]);
    bucket.rows[slot] =
        code_.Encode(row, code_.Displaced(bucket.rows[slot]), Hash(ids_(row)), segment.window);
    ++growth_steps_;
  }
}

// Updates the directory entries of a segment.
void RowIndex::WriteDirectory(const SegmentState& segment) {
  const size_t count = size_t{1} << (depth_ - segment.depth);
  const size_t first = (segment.prefix >> 1) >> (63 - depth_);
  std::fill_n(directory_.begin() + static_cast<ptrdiff_t>(first), count, segment.where);
}

}  // namespace simurgh
