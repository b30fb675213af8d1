// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/find_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <algorithm>

#include <hwy/highway.h>

#include "table/simd/find_rows.h"
#include "table/simd/mix64-inl.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

// Prefetch distance of buckets, a power of two.
constexpr size_t kAhead = 128;

// Computes RowIndex::Hash() of each id.
HWY_INLINE void HashAll(std::span<const uint64_t> ids, uint64_t* hashes) {
  const Words words;
  const size_t lanes = hn::Lanes(words);
  size_t i = 0;
  for (; i + lanes <= ids.size(); i += lanes) {
    const auto salted = hn::Add(hn::LoadU(words, ids.data() + i), hn::Set(words, RowIndex::kSalt));
    hn::StoreU(Mixed(salted), words, hashes + i);
  }
  for (; i < ids.size(); ++i) hashes[i] = RowIndex::Hash(ids[i]);
}

// The first slot with this tag; kSlots or more: none.
HWY_INLINE size_t SlotOf(const IndexBucket& bucket, uint16_t tag) {
  // A vector may read beyond the tags, into the row numbers of the same bucket.
  const hn::CappedTag<uint16_t, 16> tags;
  const auto* first = reinterpret_cast<const uint16_t*>(&bucket);
  for (size_t slot = 0; slot < IndexBucket::kSlots; slot += hn::Lanes(tags)) {
    const intptr_t found =
        hn::FindFirstTrue(tags, hn::Load(tags, first + slot) == hn::Set(tags, tag));
    if (found >= 0) return slot + static_cast<size_t>(found);
  }
  return IndexBucket::kSlots;
}

size_t FindAtHomeHere(const RowIndex::Homes& index, std::span<const uint64_t> ids, uint64_t* hashes,
                      uint32_t* candidates, uint16_t* unsettled) {
  const RowIndex::Homes homes = index;  // A local copy: the stores below cannot alias it.
  const IndexBucket* buckets[kAhead];
  const size_t size = ids.size();
  size_t open = 0;
  HashAll(ids, hashes);
  const auto fetch = [&](size_t i) HWY_ATTR {
    buckets[i % kAhead] = homes.BucketOf(hashes[i]);
    __builtin_prefetch(buckets[i % kAhead]);
  };
  for (size_t i = 0; i < std::min(kAhead, size); ++i) fetch(i);
  for (size_t i = 0; i < size; ++i) {
    const IndexBucket& bucket = *buckets[i % kAhead];
    if (i + kAhead < size) fetch(i + kAhead);
    const size_t slot = SlotOf(bucket, RowIndex::TagOf(hashes[i]));
    if (slot < IndexBucket::kSlots) [[likely]] {
      candidates[i] = homes.RowOf(bucket.rows[slot]);
      continue;
    }
    candidates[i] = kNoRow;
    if (bucket.overflow == 0) continue;
    unsettled[open++] = static_cast<uint16_t>(i);
    __builtin_prefetch(homes.NextBucketOf(hashes[i]));
  }
  return open;
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(FindAtHomeHere);

size_t FindAtHome(const RowIndex::Homes& homes, std::span<const uint64_t> ids, uint64_t* hashes,
                  uint32_t* candidates, uint16_t* unsettled) {
  return HWY_DYNAMIC_DISPATCH(FindAtHomeHere)(homes, ids, hashes, candidates, unsettled);
}

}  // namespace simurgh
#endif
