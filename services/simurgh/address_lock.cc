#include "services/simurgh/address_lock.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "services/simurgh/cluster_processes.h"
#include "services/simurgh/cluster_status.h"

namespace simurgh {

StatusOr<FileDescriptor> LockAddresses(const ClusterConfig& config, const std::string& host,
                                       const std::string& path) {
  std::vector<std::string> addresses;
  for (const ListedDaemon& daemon : DaemonsOf(config)) {
    if (!host.empty() && HostOf(daemon) != host) continue;
    if (!daemon.instance.address.empty()) addresses.push_back(daemon.instance.address);
  }
  if (addresses.empty()) return FileDescriptor();
  std::ranges::sort(addresses);
  // An abstract name needs no file, ends with the process, and like a port belongs to the network
  // namespace.
  const std::string name =
      absl::StrCat("simurgh-train-", absl::Hex(HashBytes(absl::StrJoin(addresses, " "))));
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  std::ranges::copy(name, place.sun_path + 1);
  FileDescriptor lock(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!lock.valid() ||
      ::bind(lock.number(), reinterpret_cast<const sockaddr*>(&place), bytes) == 0 ||
      errno != EADDRINUSE) {
    return lock;  // Without a lock, the error of a daemon names the address that is in use.
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": another simurgh train runs with the same addresses, such as ",
                   addresses.front(), "; wait for its end, stop it, or give other addresses"));
}

}  // namespace simurgh
