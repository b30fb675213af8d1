// Compiled once for each vector extension, as row_update.cc is.
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

// How many cache lines are on their way, and how many rows at the least. A processor that bears
// many misses at once (Zen 5) is a fifth faster at dim 16 than with twelve rows; long rows gain
// nothing.
constexpr size_t kLinesAhead = 80;
constexpr size_t kLeastRowsAhead = 12;

// Short rows are copied in place: a call would cost as much again.
HWY_INLINE void CopyBytes(const std::byte* from, uint32_t count, std::byte* to) {
  const hn::CappedTag<uint8_t, 32> bytes;
  const auto lanes = static_cast<uint32_t>(hn::Lanes(bytes));
  const auto* source = reinterpret_cast<const uint8_t*>(from);
  auto* target = reinterpret_cast<uint8_t*>(to);
  uint32_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::LoadU(bytes, source + i), bytes, target + i);
  }
  for (; i + sizeof(uint16_t) <= count; i += sizeof(uint16_t)) {
    std::memcpy(to + i, from + i, sizeof(uint16_t));
  }
}

size_t GatherRowsHere(const RowGather& given, std::span<const uint64_t> ids,
                      const uint32_t* candidates, CodedRows out, uint16_t* rest) {
  const RowGather gather = given;  // Nothing that is written here can change it.
  const auto bytes = static_cast<uint32_t>(out.row_bytes());
  const uint64_t fetched = sizeof(RowHeader) + bytes;
  const size_t ahead = std::max(kLeastRowsAhead, kLinesAhead / (fetched / 64 + 1));
  const size_t size = ids.size();
  size_t left = 0;
  const auto fetch = [&](size_t i) HWY_ATTR {
    if (candidates[i] != kNoRow) gather.rows.Prefetch(candidates[i], fetched);
  };
  for (size_t i = 0; i < std::min(ahead, size); ++i) fetch(i);
  for (size_t i = 0; i < size; ++i) {
    if (i + ahead < size) fetch(i + ahead);
    const uint32_t row = candidates[i];
    if (row != kNoRow) [[likely]] {
      std::byte* record = gather.rows.record(row);
      RowHeader& header = *reinterpret_cast<RowHeader*>(record);
      if (header.id == ids[i] && header.recency >= gather.suspect_below) [[likely]] {
        if (i % kAgeEvery == 0) ++gather.ages[std::bit_width(gather.stamp - header.recency)];
        CountUse(header, gather.stamp);
        CopyBytes(record + sizeof(RowHeader), bytes, out.row(i));
        continue;
      }
    }
    rest[left++] = static_cast<uint16_t>(i);
  }
  return left;
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh {

HWY_EXPORT(GatherRowsHere);

size_t GatherRows(const RowGather& gather, std::span<const uint64_t> ids,
                  const uint32_t* candidates, CodedRows out, uint16_t* rest) {
  return HWY_DYNAMIC_DISPATCH(GatherRowsHere)(gather, ids, candidates, out, rest);
}

}  // namespace simurgh
#endif
