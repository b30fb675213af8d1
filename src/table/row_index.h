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

#include "simurgh/base/hash.h"
#include "table/arena.h"
#include "table/row_layout.h"

namespace simurgh {

// One cache line of the index: up to ten rows, each with 16 bits of its hash.
struct alignas(64) IndexBucket {
  static constexpr uint32_t kSlots = 10;

  uint16_t tags[kSlots];  // 0: the slot is empty.
  uint32_t rows[kSlots];  // A row's number, and more, see SlotCode.
  uint32_t overflow;      // Entries that would have lain here or before, had there been room.
};
static_assert(sizeof(IndexBucket) == 64);
static_assert(offsetof(IndexBucket, rows) == 20 && offsetof(IndexBucket, overflow) == 60);

// The slots of `bucket` whose tag is `tag`, as bits; slot by slot.
inline uint32_t MatchTagsReference(const IndexBucket& bucket, uint16_t tag) {
  uint32_t matches = 0;
  for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
    matches |= uint32_t{bucket.tags[slot] == tag} << slot;
  }
  return matches;
}

// The same, eight slots at a time.
inline uint32_t MatchTags(const IndexBucket& bucket, uint16_t tag) {
  constexpr uint32_t kAllSlots = (1U << IndexBucket::kSlots) - 1;
#if defined(__SSE2__)  // Every x86-64 has it; Highway starts at its successors.
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

// What the 32 bits of a slot say. A table of at most 2^b rows leaves 32 - b bits beside a row's
// number. One tells whether the entry lies in its first bucket, and the others repeat the bits of
// its hash that the next splits of its segment will ask for: without them a split would read the
// id of every row it moves, each a cache miss in another page.
//
// Depths are cut into windows of split_bits() each; a slot holds the bits of one window. Tables of
// more than 2^30 rows have no split bits.
class SlotCode {
 public:
  explicit SlotCode(uint64_t capacity_rows)
      : row_bits_(static_cast<uint32_t>(std::bit_width(capacity_rows - 1))),
        row_mask_(static_cast<uint32_t>((uint64_t{1} << row_bits_) - 1)) {}

  uint32_t split_bits() const { return row_bits_ >= 31 ? 0 : 31 - row_bits_; }
  // The depth at which the window of `depth` begins. Requires split_bits() > 0.
  uint32_t WindowOf(uint32_t depth) const { return depth - depth % split_bits(); }

  // For an entry of a segment whose window begins at `window`.
  uint32_t Encode(uint32_t row, bool displaced, uint64_t hash, uint32_t window) const {
    if (split_bits() == 0) return row;
    const uint64_t bits = hash << window >> (64 - split_bits());
    return row | uint32_t{displaced} << row_bits_ | static_cast<uint32_t>(bits << (row_bits_ + 1));
  }
  uint32_t RowOf(uint32_t slot) const { return slot & row_mask_; }
  bool Displaced(uint32_t slot) const { return (slot & DisplacedMask()) != 0; }
  // Requires split_bits() > 0.
  uint32_t DisplacedMask() const { return 1U << row_bits_; }
  // Where a slot holds the bit that splits a segment of `depth`. Requires split_bits() > 0.
  uint32_t SplitMask(uint32_t depth) const { return 1U << (31 - depth % split_bits()); }

 private:
  uint32_t row_bits_;
  uint32_t row_mask_;
};

// Maps ids to row numbers. The ids themselves stand only in the rows.
//
// Extendible hashing: the top bits of a hash pick a segment by a directory, further bits a bucket
// in it, 16 more are the tag. An entry whose bucket is full goes to others, a stride apart that
// depends on the tag; each bucket counts the entries that went past it, so a search stops at a
// bucket nothing went past, and erasing leaves no tombstone. A segment that is three quarters
// full grows until it has the table's segment size, and from then on splits in two: the whole index
// is never rehashed at once. A split leaves entries at the same place of either half, and so reads
// two segments from end to end and, of rows, only the ids of displaced entries. When a segment has
// used up its slots' split bits, its next insertions renew them, some buckets now and then, so that
// the misses of the ids overlap and all is done before it splits again. Splits keep a distance of
// half as many insertions as there are between them on average, so a request meets few of them: a
// segment may wait for its turn, as long as it is not nearly full.
//
// A table at its capacity, where rows come and go for ever, fills its segments to 0.65: then a
// search for an id that is not there reads 1.4 buckets, one for a row 1.1. At 0.8 it would be 3.5
// and 1.3; with neighbouring buckets instead of strides 12 and 1.5.
//
// Placement of ids on servers and partitions uses the top bits of Mix64(id), which are therefore
// nearly equal within a partition; Hash() is salted to be independent of them.
//
// Threads: one owner.
class RowIndex {
  // What a probe needs, in the directory itself: no further hop.
  struct Segment {
    IndexBucket* buckets = nullptr;
    uint32_t bucket_count = 0;
    uint32_t number = 0;  // In segments_.
  };

 public:
  // `ids` reads the id of a row that is in the index; row numbers are below `capacity_rows`. The
  // segment size follows from
  // `capacity_rows`, such that a full table fills its segments to 0.65: 9.8 bytes a row.
  RowIndex(Arena& arena, uint64_t capacity_rows, RowField<uint64_t> ids);

  // Address space that an index may take, however badly its ids hash.
  static uint64_t ReservationFor(uint64_t capacity_rows);

  static constexpr uint64_t kSalt = 0x9fb21c651e98df25ULL;
  static uint64_t Hash(uint64_t id) { return Mix64(id + kSalt); }
  // Never 0.
  static uint16_t TagOf(uint64_t hash) {
    const auto tag = static_cast<uint16_t>(hash);
    return static_cast<uint16_t>(tag + (tag == 0));
  }

  // Brings near what an insertion or erasure touches first.
  void Prefetch(uint64_t hash) const {
    const Segment& segment = SegmentOf(hash);
    __builtin_prefetch(&segments_[segment.number], 1);
    __builtin_prefetch(segment.buckets + Home(segment, hash), 1);
  }
  // Brings near where an entry goes whose bucket is full. Reads that one.
  void PrefetchNext(uint64_t hash) const {
    const Homes all = homes();
    if (MatchTags(*all.BucketOf(hash), 0) == 0) __builtin_prefetch(all.NextBucketOf(hash));
  }

  // Where hashes are looked for first, by value: a loop keeps it in registers.
  // Lifetime: until the index changes.
  class Homes {
   public:
    const IndexBucket* BucketOf(uint64_t hash) const {
      const Segment& segment = SegmentOf(hash);
      return segment.buckets + Home(segment, hash);
    }
    // The one that is searched after the first.
    const IndexBucket* NextBucketOf(uint64_t hash) const {
      const Segment& segment = SegmentOf(hash);
      return segment.buckets + Next(segment, Home(segment, hash), TagOf(hash));
    }
    // A slot's row.
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

  // The first row whose tag fits the hash, or kNoRow when no row can have it. Reads no row: the
  // caller compares ids and calls Find() when they differ.
  uint32_t Candidate(uint64_t hash) const {
    return Probe(hash, [](uint32_t) { return true; });
  }

  // The row of `id`, whose hash is `hash`, or kNoRow.
  uint32_t Find(uint64_t id, uint64_t hash) const {
    return Probe(hash, [&](uint32_t row) { return ids_(row) == id; });
  }

  // Adds a row whose id stands in it already and is not in the index.
  void Insert(uint64_t hash, uint32_t row);

  // Adds `row` for an id that has been absent some time ago, unless it has a row since then:
  // returns that, or else kNoRow. Requires that nothing was erased since. The row needs its id by
  // the next insertion.
  uint32_t InsertAbsent(uint64_t id, uint64_t hash, uint32_t row);

  // Removes a row that is in the index.
  void Erase(uint64_t hash, uint32_t row);

  // Sees to it that so many more rows have memory, and the splits that come from rows that replace
  // others. Errors: see ArenaRegion::Commit().
  Status Commit(size_t rows_more);

  // See ArenaRegion::AddedMemory(). 17 bytes a row, as in segments that have just split.
  uint64_t AddedMemory(size_t rows_more) const { return region_.AddedMemory(rows_more * 17); }

  uint64_t size() const { return size_; }
  size_t segment_count() const { return segments_.size(); }
  uint64_t bytes_used() const;
  // What growing has done so far: entries moved plus ids read. An insertion adds no more than a
  // split of one segment takes.
  uint64_t growth_steps() const { return growth_steps_; }
  // Entries that a segment has at most when it splits, however many others have just done so:
  // nineteen twentieths of its slots.
  uint64_t max_split_at_once() const {
    return uint64_t{segment_buckets_} * IndexBucket::kSlots * 19 / 20;
  }

 private:
  static constexpr uint32_t kAllBuckets = std::numeric_limits<uint32_t>::max();

  struct alignas(64) SegmentState {  // A cache line.
    Segment where;
    uint32_t depth = 0;   // Bits of the hash that all its entries share.
    uint64_t prefix = 0;  // Those bits, at the top.
    uint64_t rows = 0;
    uint64_t limit = 0;   // Rows that make it full.
    uint32_t window = 0;  // See SlotCode.
    // Slots of buckets from here on have used up their split bits, except for later entries.
    uint32_t renewed_buckets = kAllBuckets;
    uint32_t since_renewal = 0;  // Insertions.
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
    // The bound matters when every bucket has been passed by some entry.
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
  // Whether the segment has to get more room before it takes another entry.
  bool MustGrow(const SegmentState& segment) const;
  // The segment of a hash, with room for another entry.
  SegmentState& RoomySegment(uint64_t hash);
  // Requires room in the segment.
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
  uint32_t segment_buckets_;  // Of a segment that splits instead of growing.
  uint32_t depth_limit_;      // Ids that share so many bits make their segment grow again.
  ArenaRegion region_;
  uint32_t depth_ = 0;
  std::vector<Segment> directory_;  // 2^depth_ entries.
  std::vector<SegmentState> segments_;
  uint64_t size_ = 0;
  uint64_t growth_steps_ = 0;
  uint64_t since_split_ = 0;  // Insertions.
};

}  // namespace simurgh
