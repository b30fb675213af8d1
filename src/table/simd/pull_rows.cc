// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/pull_rows.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include <hwy/highway.h>

#include "base/random.h"
#include "table/simd/pull_rows.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 256 bits: 512-bit products lower the clock of some processors, which costs
// insertions a tenth.
using Words = hn::CappedTag<uint64_t, 4>;

// Mix64 of base/hash.h.
template <class V>
HWY_INLINE V Mixed(V x) {
  const hn::DFromV<V> d;
  x = hn::Xor(x, hn::ShiftRight<30>(x)) * hn::Set(d, 0xbf58476d1ce4e5b9ULL);
  x = hn::Xor(x, hn::ShiftRight<27>(x)) * hn::Set(d, 0x94d049bb133111ebULL);
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

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

// `count` is kCount, unless that is 0. Inline because a call to memcpy doubles the cost.
template <uint32_t kCount>
HWY_INLINE void CopyBytes(const std::byte* from, uint32_t count, std::byte* to) {
  const hn::CappedTag<uint8_t, kCount == 0 ? 32 : std::min(kCount, 64U)> bytes;
  const auto lanes = static_cast<uint32_t>(hn::Lanes(bytes));
  const auto* source = reinterpret_cast<const uint8_t*>(from);
  auto* target = reinterpret_cast<uint8_t*>(to);
  if constexpr (kCount != 0) count = kCount;
  uint32_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::LoadU(bytes, source + i), bytes, target + i);
  }
  if constexpr (kCount != 0) return;
  for (; i + sizeof(uint16_t) <= count; i += sizeof(uint16_t)) {
    std::memcpy(to + i, from + i, sizeof(uint16_t));
  }
}

// Returns whether the candidate is the row of the id, and its recency is in the `wanted` values
// from suspect_below on. Rows have kBytes bytes of weights, or `bytes` if that is 0.
template <uint32_t kBytes>
HWY_INLINE bool GatherRow(const RowGather& gather, uint32_t wanted, bool aged, uint64_t id,
                          uint32_t row, uint32_t bytes, std::byte* to) {
  if (row == kNoRow) [[unlikely]]
    return false;
  std::byte* record = gather.rows.record(row);
  RowHeader& header = *reinterpret_cast<RowHeader*>(record);
  if (header.id != id || header.recency - gather.suspect_below >= wanted) [[unlikely]]
    return false;
  if (aged) ++gather.ages[std::bit_width(gather.stamp - header.recency)];
  CountUse(header, gather.stamp);
  CopyBytes<kBytes>(record + sizeof(RowHeader), bytes, to);
  return true;
}

template <uint32_t kBytes>
HWY_INLINE size_t GatherRowsOf(const RowGather& given, std::span<const uint64_t> ids,
                               const uint32_t* candidates, EncodedRows out, uint16_t* rest) {
  const RowGather gather = given;  // A local copy: the stores below cannot alias it.
  const auto bytes = static_cast<uint32_t>(out.row_bytes());
  const RowFetch fetch(gather.rows, sizeof(RowHeader) + bytes);
  const size_t size = ids.size();
  const size_t ahead = std::min(fetch.ahead(), size);
  const uint32_t wanted = gather.open_from - std::min(gather.open_from, gather.suspect_below);
  size_t left = 0;
  const auto take = [&](size_t i) HWY_ATTR {
    if (!GatherRow<kBytes>(gather, wanted, i % kAgeEvery == 0, ids[i], candidates[i], bytes,
                           out.row(i))) [[unlikely]]
      rest[left++] = static_cast<uint16_t>(i);
  };
  for (size_t i = 0; i < ahead; ++i) fetch(candidates[i]);
  for (size_t i = 0; i < size - ahead; ++i) {
    fetch(candidates[i + ahead]);
    take(i);
  }
  for (size_t i = size - ahead; i < size; ++i) take(i);
  return left;
}

// Fixed sizes for short rows, where a loop over bytes costs more than the copy.
size_t GatherRowsHere(const RowGather& gather, std::span<const uint64_t> ids,
                      const uint32_t* candidates, EncodedRows out, uint16_t* rest) {
  switch (out.row_bytes()) {
    case 32:
      return GatherRowsOf<32>(gather, ids, candidates, out, rest);
    case 64:
      return GatherRowsOf<64>(gather, ids, candidates, out, rest);
    case 128:
      return GatherRowsOf<128>(gather, ids, candidates, out, rest);
    case 256:
      return GatherRowsOf<256>(gather, ids, candidates, out, rest);
    default:
      return GatherRowsOf<0>(gather, ids, candidates, out, rest);
  }
}

// Offsets of the first draws from the seed.
struct Steps {
  constexpr Steps() {
    for (size_t i = 0; i < kCount; ++i) values[i] = (i + 1) * Random::kIncrement;
  }
  static constexpr size_t kCount = hn::MaxLanes(Words());
  HWY_ALIGN uint64_t values[kCount] = {};
};
constexpr Steps kSteps;

HWY_INLINE void FillRow(const UniformRange& range, uint32_t dim, const UniformRow& to) {
  const Words draws;
  const hn::Repartition<int32_t, decltype(draws)> integers;
  const hn::RebindToFloat<decltype(integers)> floats;
  const auto numbers = static_cast<uint32_t>(2 * hn::Lanes(draws));
  auto state = hn::Add(hn::Set(draws, to.seed), hn::Load(draws, kSteps.values));
  const auto next = hn::Set(draws, hn::Lanes(draws) * Random::kIncrement);
  for (uint32_t i = 0; i < dim; i += numbers) {
    const auto bits = Mixed(state);
    state = hn::Add(state, next);
    const auto first = hn::ShiftRight<40>(bits);
    const auto second =
        hn::ShiftLeft<32>(hn::And(hn::ShiftRight<16>(bits), hn::Set(draws, uint64_t{0xffffff})));
    const auto unit = hn::Mul(hn::ConvertTo(floats, hn::BitCast(integers, hn::Or(first, second))),
                              hn::Set(floats, 0x1.0p-24F));
    const auto value =
        hn::Min(hn::Add(hn::Set(floats, range.low), hn::Mul(unit, hn::Set(floats, range.width))),
                hn::Set(floats, range.highest));
    if (i + numbers <= dim) {
      hn::StoreU(value, floats, to.row + i);
    } else {
      HWY_ALIGN float last[hn::MaxLanes(floats)];
      hn::Store(value, floats, last);
      std::copy_n(last, dim - i, to.row + i);
    }
  }
}

void FillUniformHere(const UniformRange& given, uint32_t dim, std::span<const UniformRow> rows) {
  const UniformRange range = given;  // A local copy: the stores below cannot alias it.
  for (const UniformRow& row : rows) FillRow(range, dim, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(FindAtHomeHere);
HWY_EXPORT(GatherRowsHere);
HWY_EXPORT(FillUniformHere);

size_t FindAtHome(const RowIndex::Homes& homes, std::span<const uint64_t> ids, uint64_t* hashes,
                  uint32_t* candidates, uint16_t* unsettled) {
  return HWY_DYNAMIC_DISPATCH(FindAtHomeHere)(homes, ids, hashes, candidates, unsettled);
}

size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, EncodedRows out, uint16_t* rest) {
  return HWY_DYNAMIC_DISPATCH(GatherRowsHere)(gather, ids, candidates, out, rest);
}

void FillUniform(const UniformRange& range, uint32_t dim, std::span<const UniformRow> rows) {
  HWY_DYNAMIC_DISPATCH(FillUniformHere)(range, dim, rows);
}

}  // namespace simurgh
#endif
