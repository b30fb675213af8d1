#include "base/status.h"

#include <cerrno>

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

const char* RemedyOf(int error) {
  switch (error) {
    case EMFILE:
      return "; raise the process's limit of open files (ulimit -n)";
    case ENFILE:
      return "; raise the system's limit of open files (sysctl fs.file-max)";
    case EAGAIN:
      return "; raise the limit of threads and processes (ulimit -u, pids.max of the cgroup), "
             "or of memory (ulimit -v)";
    case ENOMEM:
      return "; there is too little memory (ulimit -v, memory.max of the cgroup)";
    default:
      return "";
  }
}

Status ErrnoStatus(int error, std::string_view message) {
  const Status status =
      absl::ErrnoToStatus(error, absl::string_view(message.data(), message.size()));
  return Status(status.code(), absl::StrCat(status.message(), RemedyOf(error)));
}

}  // namespace simurgh
