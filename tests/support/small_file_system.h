#pragma once

#include <string>

namespace simurgh {

// Mounts a tmpfs of `megabytes` MiB on an existing folder, for this process only. Call in a child
// process: it enters a mount namespace of its own. False if the process may not mount.
bool MountSmallFileSystem(const std::string& folder, int megabytes);

}  // namespace simurgh
