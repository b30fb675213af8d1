#include "simurgh/base/status.h"

#include "absl/strings/str_cat.h"

namespace simurgh {

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrCat(absl::string_view(context.data(), context.size()), ": ",
                             status.message()));
}

}  // namespace simurgh
