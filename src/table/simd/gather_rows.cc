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

// Whether it was the row of the id, and alive.
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
  CopyBytes(record + sizeof(RowHeader), bytes, to);
  return true;
}

size_t GatherRowsHere(const RowGather& given, std::span<const uint64_t> ids,
                      const uint32_t* candidates, CodedRows out, uint16_t* rest) {
  const RowGather gather = given;  // Nothing that is written here can change it.
  const auto bytes = static_cast<uint32_t>(out.row_bytes());
  const uint64_t fetched = sizeof(RowHeader) + bytes;
  const size_t together = Rows::Together(fetched);
  const size_t size = ids.size();
  size_t left = 0;
  gather.rows.Prefetch({candidates, std::min(together, size)}, fetched);
  for (size_t begin = 0; begin < size; begin += together) {
    const size_t end = std::min(begin + together, size);
    gather.rows.Prefetch({candidates + end, std::min(together, size - end)}, fetched);
    for (size_t i = begin; i < end; ++i) {
      if (GatherRow(gather, i % kAgeEvery == 0, ids[i], candidates[i], bytes, out.row(i)))
          [[likely]]
        continue;
      rest[left++] = static_cast<uint16_t>(i);
    }
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
