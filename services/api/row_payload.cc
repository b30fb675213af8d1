#include "services/api/row_payload.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

RowPayload PayloadOf(const RowGroup& group) {
  uint64_t ids = 0;
  for (const uint32_t count : group.counts) ids += count;
  constexpr uint64_t kAlignment = sizeof(float);
  const uint64_t bytes = ids * group.dim * SizeOf(group.precision);
  return {.ids = ids, .bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment};
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

Status CheckLength(const char* what, uint64_t given, uint64_t described) {
  if (given == described) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rows: the request has ", given, " ", what,
                                                 ", its groups describe ", described));
}

}  // namespace simurgh::api
