#include "simurgh/base/status.h"

#include "absl/strings/str_cat.h"

namespace simurgh {

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  Status annotated(status.code(), absl::StrCat(absl::string_view(context.data(), context.size()),
                                               ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

}  // namespace simurgh
