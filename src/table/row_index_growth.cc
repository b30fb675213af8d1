// Growth of an index: segments grow to the planned size and then split.

#include <algorithm>
#include <cstring>

#include "table/primes.h"
#include "table/row_index.h"
#include "table/simd/split_buckets.h"

namespace simurgh {
namespace {

// Prefetch distance of ids.
constexpr size_t kIdsAhead = 32;
// One bucket per two insertions: there are more than two per bucket between splits.
constexpr uint32_t kInsertionsPerRenewal = 16;
constexpr uint32_t kBucketsPerRenewal = 8;

}  // namespace

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
