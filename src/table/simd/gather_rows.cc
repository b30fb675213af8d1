// Compiled once per vector extension, see row_update.cc.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "table/simd/gather_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <algorithm>
#include <bit>
#include <cstring>

#include <hwy/highway.h>

#include "table/simd/gather_rows.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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

// Returns whether the candidate is the row of the id and not suspect. Rows have kBytes bytes of
// weights, or `bytes` if that is 0.
template <uint32_t kBytes>
HWY_INLINE bool GatherRow(const RowGather& gather, bool aged, uint64_t id, uint32_t row,
                          uint32_t bytes, std::byte* to) {
  if (row == kNoRow) [[unlikely]]
    return false;
  std::byte* record = gather.rows.record(row);
  RowHeader& header = *reinterpret_cast<RowHeader*>(record);
  if (header.id != id || header.recency < gather.suspect_below) [[unlikely]]
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
  size_t left = 0;
  const auto take = [&](size_t i) HWY_ATTR {
    if (!GatherRow<kBytes>(gather, i % kAgeEvery == 0, ids[i], candidates[i], bytes, out.row(i)))
        [[unlikely]]
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

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(GatherRowsHere);

size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, EncodedRows out, uint16_t* rest) {
  return HWY_DYNAMIC_DISPATCH(GatherRowsHere)(gather, ids, candidates, out, rest);
}

}  // namespace simurgh
#endif
