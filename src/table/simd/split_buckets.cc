// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/split_buckets.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.

#include <hwy/highway.h>

#include "table/simd/split_buckets.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

// Prefetch distance of buckets.
constexpr size_t kAhead = 48;

using Codes = hn::FixedTag<uint32_t, 8>;
using Tags = hn::FixedTag<uint16_t, 8>;

// A copy of some slots, taken before the bucket is overwritten.
struct Slots {
  hn::Vec<Codes> codes;
  hn::Vec<Codes> tags;
  hn::Mask<Codes> taken;
};

HWY_INLINE Slots SlotsFrom(const IndexBucket& bucket, size_t first, hn::Mask<Codes> wanted) {
  const Codes codes;
  const auto tags = hn::PromoteTo(codes, hn::LoadU(Tags(), bucket.tags + first));
  return {hn::LoadU(codes, bucket.rows + first), tags,
          hn::And(wanted, hn::Not(hn::Eq(tags, hn::Zero(codes))))};
}

// The tags of the lanes of `mask`, compacted and padded with zeros.
HWY_INLINE hn::Vec<Tags> TagsOf(const Slots& slots, hn::Mask<Codes> mask, size_t count) {
  const Codes codes;
  const auto packed = hn::IfThenElseZero(hn::FirstN(codes, count), hn::Compress(slots.tags, mask));
  return hn::DemoteTo(Tags(), hn::BitCast(hn::RebindToSigned<Codes>(), packed));
}

// Fills a bucket with the lanes of two masks. Tags are stored first: the vector store overlaps
// rows.
HWY_INLINE size_t Fill(const Slots& first, hn::Mask<Codes> of_first, const Slots& last,
                       hn::Mask<Codes> of_last, IndexBucket& bucket) {
  const Codes codes;
  const Tags tags;
  const size_t before = hn::CountTrue(codes, of_first);
  const size_t count = hn::CountTrue(codes, of_last);
  const auto first_tags = TagsOf(first, of_first, before);
  const auto last_tags = TagsOf(last, of_last, count);
  hn::StoreU(hn::Zero(tags), tags, bucket.tags + 2);
  hn::StoreU(first_tags, tags, bucket.tags);
  hn::StoreU(last_tags, tags, bucket.tags + before);
  hn::CompressBlendedStore(first.codes, of_first, codes, bucket.rows);
  hn::CompressBlendedStore(last.codes, of_last, codes, bucket.rows + before);
  bucket.overflow = 0;
  return before + count;
}

SplitCounts SplitBucketsHere(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                             uint32_t* displaced) {
  const Codes codes;
  const auto displaced_bit = hn::Set(codes, masks.displaced);
  const auto high_bit = hn::Set(codes, masks.high);
  const auto all = hn::FirstN(codes, 8);
  // The last two slots, in a vector that overlaps the first eight.
  constexpr size_t kLast = IndexBucket::kSlots - 8;
  const auto last_two = hn::Not(hn::FirstN(codes, 8 - kLast));
  SplitCounts counts;
  for (size_t at = 0; at < low.size(); ++at) {
    IndexBucket& bucket = low[at];
    if (at + kAhead < low.size()) {
      __builtin_prefetch(&low[at + kAhead], 1);
      __builtin_prefetch(high + at + kAhead, 1);
    }
    const Slots first = SlotsFrom(bucket, 0, all);
    const Slots last = SlotsFrom(bucket, kLast, last_two);
    const auto displaced_of = [&](const Slots& slots) HWY_ATTR {
      return hn::And(slots.taken, hn::TestBit(slots.codes, displaced_bit));
    };
    const auto first_displaced = displaced_of(first);
    const auto last_displaced = displaced_of(last);
    const auto first_stays = hn::AndNot(first_displaced, first.taken);
    const auto last_stays = hn::AndNot(last_displaced, last.taken);
    const auto first_high = hn::And(first_stays, hn::TestBit(first.codes, high_bit));
    const auto last_high = hn::And(last_stays, hn::TestBit(last.codes, high_bit));
    if (!hn::AllFalse(codes, hn::Or(first_displaced, last_displaced))) [[unlikely]] {
      counts.displaced += hn::CompressBlendedStore(first.codes, first_displaced, codes,
                                                   displaced + counts.displaced);
      counts.displaced +=
          hn::CompressBlendedStore(last.codes, last_displaced, codes, displaced + counts.displaced);
    }
    counts.high += Fill(first, first_high, last, last_high, high[at]);
    counts.low += Fill(first, hn::AndNot(first_high, first_stays), last,
                       hn::AndNot(last_high, last_stays), bucket);
  }
  return counts;
}

#else

SplitCounts SplitBucketsHere(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                             uint32_t* displaced) {
  return SplitBucketsReference(masks, low, high, displaced);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(SplitBucketsHere);

SplitCounts SplitBuckets(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                         uint32_t* displaced) {
  return HWY_DYNAMIC_DISPATCH(SplitBucketsHere)(masks, low, high, displaced);
}

SplitCounts SplitBucketsReference(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                                  uint32_t* displaced) {
  SplitCounts counts;
  for (size_t at = 0; at < low.size(); ++at) {
    const IndexBucket from = low[at];
    IndexBucket* const halves[] = {&low[at], &high[at]};
    size_t filled[] = {0, 0};
    low[at] = high[at] = {};
    for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
      if (from.tags[slot] == 0) continue;
      const uint32_t code = from.rows[slot];
      if ((code & masks.displaced) != 0) {
        displaced[counts.displaced++] = code;
        continue;
      }
      const size_t half = (code & masks.high) != 0 ? 1 : 0;
      halves[half]->tags[filled[half]] = from.tags[slot];
      halves[half]->rows[filled[half]++] = code;
    }
    counts.low += filled[0];
    counts.high += filled[1];
  }
  return counts;
}

}  // namespace simurgh
#endif
