#include "services/runtime/open_files.h"

#include <sys/resource.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

// Connections to other daemons, data, metrics and logs.
constexpr uint64_t kOtherFiles = 128;

}  // namespace

Status RaiseOpenFiles(const char* key, uint32_t max_connections) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) raised = limit;
  const uint64_t needed = max_connections + kOtherFiles;
  if (raised.rlim_cur >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      key, ": ", max_connections, " connections need ", needed, " open files, but the limit is ",
      raised.rlim_cur, "; raise the hard limit (ulimit -Hn, LimitNOFILE of a systemd unit)"));
}

}  // namespace simurgh
