#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include <hwy/highway.h>

#include "base/hash.h"
#include "table/arena.h"
#include "table/row_layout.h"

namespace simurgh {

// One cache line of the index: up to ten rows, each with 16 bits of its hash.
struct alignas(64) IndexBucket {
  static constexpr uint32_t kSlots = 10;

  uint16_t tags[kSlots];  // 0: the slot is empty.
  uint32_t rows[kSlots];  // Encoded by SlotCode.
  uint32_t overflow;      // Entries that passed this bucket because it was full.
};
static_assert(sizeof(IndexBucket) == 64);
static_assert(offsetof(IndexBucket, rows) == 20 && offsetof(IndexBucket, overflow) == 60);

// Bit mask of the slots of `bucket` whose tag is `tag`.
inline uint32_t MatchTags(const IndexBucket& bucket, uint16_t tag) {
  constexpr uint32_t kAllSlots = (1U << IndexBucket::kSlots) - 1;
#if defined(__SSE2__)  // All x86-64 processors; Highway starts at later extensions.
  const auto* words = reinterpret_cast<const __m128i*>(&bucket);
  const __m128i wanted = _mm_set1_epi16(static_cast<int16_t>(tag));
  const __m128i equal = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_load_si128(words), wanted),
                                        _mm_cmpeq_epi16(_mm_load_si128(words + 1), wanted));
  return static_cast<uint32_t>(_mm_movemask_epi8(equal)) & kAllSlots;
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<uint16_t, 8> d;
  const auto* words = reinterpret_cast<const uint16_t*>(&bucket);
  const auto wanted = hn::Set(d, tag);
  uint8_t bits[16];  // StoreMaskBits may write eight bytes.
  hn::StoreMaskBits(d, hn::Load(d, words) == wanted, bits);
  hn::StoreMaskBits(d, hn::Load(d, words + 8) == wanted, bits + 1);
  return (bits[0] | uint32_t{bits[1]} << 8) & kAllSlots;
#endif
}

// Layout of a slot's 32 bits. A table of at most 2^b rows leaves 32 - b bits next to the row
// number. One is set if the entry is displaced from its home bucket. The others are the bits of its
// hash that decide the next splits of its segment: without them, a split would miss the cache for
// every row.
//
// Depths are divided into windows of split_bits(); a slot holds the bits of one window. Tables of
// more than 2^30 rows have no split bits.
class SlotCode {
 public:
  explicit SlotCode(uint64_t capacity_rows)
      : row_bits_(static_cast<uint32_t>(std::bit_width(capacity_rows - 1))),
        row_mask_(static_cast<uint32_t>((uint64_t{1} << row_bits_) - 1)) {}

  uint32_t split_bits() const { return row_bits_ >= 31 ? 0 : 31 - row_bits_; }
  // First depth of the window that contains `depth`. Requires split_bits() > 0.
  uint32_t WindowOf(uint32_t depth) const { return depth - depth % split_bits(); }

  // window: first depth of the segment's window.
  uint32_t Encode(uint32_t row, bool displaced, uint64_t hash, uint32_t window) const {
    if (split_bits() == 0) return row;
    const uint64_t bits = hash << window >> (64 - split_bits());
    return row | uint32_t{displaced} << row_bits_ | static_cast<uint32_t>(bits << (row_bits_ + 1));
  }
  uint32_t RowOf(uint32_t slot) const { return slot & row_mask_; }
  bool Displaced(uint32_t slot) const { return (slot & DisplacedMask()) != 0; }
  // Requires split_bits() > 0.
  uint32_t DisplacedMask() const { return 1U << row_bits_; }
  // The bit of a slot that splits a segment of `depth`. Requires split_bits() > 0.
  uint32_t SplitMask(uint32_t depth) const { return 1U << (31 - depth % split_bits()); }

 private:
  uint32_t row_bits_;
  uint32_t row_mask_;
};

// Maps ids to row numbers. Ids are stored only in the rows.
//
// Extendible hashing. The top bits of a hash select a segment through a directory, further bits a
// home bucket, and 16 more are the tag. An entry whose bucket is full is displaced by a stride that
// depends on the tag. Each bucket counts the entries that passed it, so a search stops at the first
// bucket with count 0, and erasing leaves no tombstone.
//
// A segment that is three quarters full grows up to the table's segment size and then splits in
// two, so the index is never rehashed as a whole. A split keeps entries at the same bucket of
// either half. It reads two segments sequentially, and ids only of displaced entries. When the
// split bits of a segment are used up, its next insertions renew them, a few buckets at a time,
// before its next split. Splits are at least half their average distance apart, so that a request
// meets few: a segment that is not nearly full may be delayed.
//
// A full table with turnover fills its segments to 0.65. A search then reads 1.4 buckets for an
// absent id and 1.1 for a present one; at 0.8 3.5 and 1.3, and with neighbouring buckets instead of
// strides 12 and 1.5.
//
// Hash() is salted because the top bits of Mix64(id) select the partition, so they are nearly equal
// within one.
//
// Threads: one owner.
class RowIndex {
  // Stored in the directory itself, to save an indirection.
  struct Segment {
    IndexBucket* buckets = nullptr;
    uint32_t bucket_count = 0;
    uint32_t number = 0;  // Index in segments_.
  };

 public:
  // ids: reads the id of a row. Row numbers are below `capacity_rows`. The segment size is such
  // that a full table fills its segments to 0.65: 9.8 bytes a row.
  RowIndex(Arena& arena, uint64_t capacity_rows, RowField<uint64_t> ids);

  // Upper bound of the address space, for any ids.
  static uint64_t ReservationFor(uint64_t capacity_rows);

  static constexpr uint64_t kSalt = 0x9fb21c651e98df25ULL;
  static uint64_t Hash(uint64_t id) { return Mix64(id + kSalt); }
  // Never 0.
  static uint16_t TagOf(uint64_t hash) {
    const auto tag = static_cast<uint16_t>(hash);
    return static_cast<uint16_t>(tag + (tag == 0));
  }

  // Estimates bytes_used() of an index with `rows` rows, of which none was evicted.
  static uint64_t BytesFor(uint64_t capacity_rows, uint64_t rows);

  // Prefetches what an insertion or erasure touches first.
  void Prefetch(uint64_t hash) const {
    const Segment& segment = SegmentOf(hash);
    __builtin_prefetch(&segments_[segment.number], 1);
    __builtin_prefetch(segment.buckets + Home(segment, hash), 1);
  }
  // Prefetches the second bucket of a hash if the home bucket is full. Reads the home bucket.
  void PrefetchNext(uint64_t hash) const {
    const Homes all = homes();
    if (MatchTags(*all.BucketOf(hash), 0) == 0) __builtin_prefetch(all.NextBucketOf(hash));
  }

  // Finds home buckets. Passed by value, so that loops keep it in registers.
  // Lifetime: valid until the index changes.
  class Homes {
   public:
    const IndexBucket* BucketOf(uint64_t hash) const {
      const Segment& segment = SegmentOf(hash);
      return segment.buckets + Home(segment, hash);
    }
    // The bucket that is searched after the home bucket.
    const IndexBucket* NextBucketOf(uint64_t hash) const {
      const Segment& segment = SegmentOf(hash);
      return segment.buckets + Next(segment, Home(segment, hash), TagOf(hash));
    }
    uint32_t RowOf(uint32_t slot) const { return code_.RowOf(slot); }

   private:
    friend class RowIndex;
    Homes(const RowIndex& index)  // NOLINT(google-explicit-constructor)
        : segments_(index.directory_.data()), shift_(63 - index.depth_), code_(index.code_) {}
    const Segment& SegmentOf(uint64_t hash) const { return segments_[(hash >> 1) >> shift_]; }

    const Segment* segments_;
    uint32_t shift_;
    SlotCode code_;
  };
  Homes homes() const { return *this; }

  // Returns the first row whose tag matches, or kNoRow. Reads no row: the caller compares ids and
  // calls Find() when they differ.
  uint32_t Candidate(uint64_t hash) const {
    return Probe(hash, [](uint32_t) { return true; });
  }

  // Returns the row of `id`, or kNoRow.
  uint32_t Find(uint64_t id, uint64_t hash) const {
    return Probe(hash, [&](uint32_t row) { return ids_(row) == id; });
  }

  // Adds a row. Requires that its record holds the id and that the id is not in the index.
  void Insert(uint64_t hash, uint32_t row);

  // Adds `row` for an id that an earlier search did not find; if it was added since, returns its
  // row instead of kNoRow. Requires that nothing was erased since that search, and that the caller
  // stores the id in the row before the next insertion.
  uint32_t InsertAbsent(uint64_t id, uint64_t hash, uint32_t row);

  // Requires that the row is in the index.
  void Erase(uint64_t hash, uint32_t row);

  // Commits memory for `rows_more` rows, and for splits caused by turnover. Errors: see
  // ArenaRegion::Commit().
  Status Commit(size_t rows_more);

  // See ArenaRegion::AddedMemory(). 17 bytes a row, as right after splits.
  uint64_t AddedMemory(size_t rows_more) const { return region_.AddedMemory(rows_more * 17); }

  uint64_t size() const { return size_; }
  size_t segment_count() const { return segments_.size(); }
  uint64_t bytes_used() const;
  // Work of growing so far: entries moved plus ids read. One insertion adds at most one split.
  uint64_t growth_steps() const { return growth_steps_; }
  // Most entries of a segment when it splits: nineteen twentieths of its slots.
  uint64_t max_split_at_once() const {
    return uint64_t{segment_buckets_} * IndexBucket::kSlots * 19 / 20;
  }

 private:
  static constexpr uint32_t kAllBuckets = std::numeric_limits<uint32_t>::max();

  struct alignas(64) SegmentState {  // A cache line.
    Segment where;
    uint32_t depth = 0;   // Leading bits of the hash that all entries share.
    uint64_t prefix = 0;  // The shared bits, at the top.
    uint64_t rows = 0;
    uint64_t limit = 0;   // Splits or grows from this number of rows on.
    uint32_t window = 0;  // See SlotCode.
    // Buckets from here on hold used-up split bits, except in entries added later.
    uint32_t renewed_buckets = kAllBuckets;
    uint32_t since_renewal = 0;  // Number of insertions.
  };
  static_assert(sizeof(SegmentState) == 64);
  struct Entry {
    uint64_t hash;
    uint32_t row;
  };

  // Two shifts, because depth 0 would shift by 64.
  const Segment& SegmentOf(uint64_t hash) const { return directory_[(hash >> 1) >> (63 - depth_)]; }
  static uint32_t Home(const Segment& segment, uint64_t hash) {
    return static_cast<uint32_t>(((hash >> 16 & 0xffffffff) * segment.bucket_count) >> 32);
  }
  // Bucket counts are prime, so that every stride below them visits all buckets.
  static uint32_t Next(const Segment& segment, uint32_t at, uint16_t tag) {
    const uint32_t next =
        at + 1 + static_cast<uint32_t>((uint64_t{tag} * (segment.bucket_count - 1)) >> 16);
    return next < segment.bucket_count ? next : next - segment.bucket_count;
  }
  template <typename Accept>
  HWY_INLINE uint32_t Probe(uint64_t hash, Accept accept) const {
    const Segment& segment = SegmentOf(hash);
    const uint16_t tag = TagOf(hash);
    uint32_t at = Home(segment, hash);
    // The bound ends the search when every bucket has been passed.
    for (uint32_t left = segment.bucket_count; left > 0; --left) {
      const IndexBucket& bucket = segment.buckets[at];
      for (uint32_t matches = MatchTags(bucket, tag); matches != 0; matches &= matches - 1) {
        const uint32_t row = code_.RowOf(bucket.rows[std::countr_zero(matches)]);
        if (accept(row)) return row;
      }
      if (bucket.overflow == 0) return kNoRow;
      at = Next(segment, at, tag);
    }
    return kNoRow;
  }

  static uint64_t LimitOf(const SegmentState& segment);
  // Returns whether the segment must grow or split before the next insertion.
  bool MustGrow(const SegmentState& segment) const;
  // Returns the segment of a hash, after growing it if necessary.
  SegmentState& RoomySegment(uint64_t hash);
  // Requires a free slot in the segment.
  void Place(const SegmentState& segment, const Entry& entry);
  std::vector<Entry> TakeOut(const SegmentState& segment);
  void ReadHashes(std::vector<Entry>& entries);
  IndexBucket* NewBuckets(uint32_t count);
  void MakeRoom(uint32_t number);
  void Grow(SegmentState& segment, uint32_t bucket_count);
  void Split(uint32_t number);
  uint32_t AddSibling(uint32_t number);
  void PlaceBySide(uint32_t number, uint32_t sibling, const std::vector<Entry>& entries);
  void SplitByBits(uint32_t number, uint32_t sibling);
  void RenewSome(SegmentState& segment);
  void Renew(SegmentState& segment, uint32_t count);
  void RenewBucket(const SegmentState& segment, IndexBucket& bucket);
  void WriteDirectory(const SegmentState& segment);

  RowField<uint64_t> ids_;
  SlotCode code_;
  uint32_t segment_buckets_;  // Size from which segments split instead of growing.
  uint32_t depth_limit_;      // Deeper segments grow instead of splitting.
  ArenaRegion region_;
  IndexBucket first_bucket_{};  // Serves an index without rows, which takes no arena memory.
  uint32_t depth_ = 0;
  std::vector<Segment> directory_;  // 2^depth_ entries.
  std::vector<SegmentState> segments_;
  uint64_t size_ = 0;
  uint64_t growth_steps_ = 0;
  uint64_t since_split_ = 0;  // Number of insertions.
};

}  // namespace simurgh
