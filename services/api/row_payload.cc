#include "services/api/row_payload.h"

namespace simurgh::api {
namespace {

constexpr uint64_t kGroupAlignment = sizeof(float);

}  // namespace

RowPayload PayloadOf(const RowGroup& group) {
  uint64_t ids = 0;
  for (const uint32_t count : group.counts) ids += count;
  const uint64_t bytes = ids * group.dim * SizeOf(group.precision);
  return {.ids = ids, .bytes = (bytes + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment};
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

}  // namespace simurgh::api
