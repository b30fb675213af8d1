#include "embedding/row_groups.h"

namespace simurgh {

RowPayload PayloadOf(const RowGroup& group) {
  uint64_t ids = 0;
  for (const uint32_t count : group.counts) ids += count;
  return {.ids = ids, .bytes = PaddedRowBytes(ids * group.dim * SizeOf(group.precision))};
}

RowPayload PayloadOf(std::span<const RowGroup> groups) {
  RowPayload payload;
  for (const RowGroup& group : groups) {
    const RowPayload one = PayloadOf(group);
    payload.ids += one.ids;
    payload.bytes += one.bytes;
  }
  return payload;
}

}  // namespace simurgh
