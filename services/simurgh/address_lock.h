#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "config/cluster_config.h"

namespace simurgh {

// Keeps other `simurgh train` on this machine from starting daemons at the same addresses, while
// the descriptor is open. host: host of the daemons; empty: all hosts. path: path of the
// configuration. Errors: INVALID_ARGUMENT if another `simurgh train` has locked them.
StatusOr<FileDescriptor> LockAddresses(const ClusterConfig& config, const std::string& host,
                                       const std::string& path);

}  // namespace simurgh
