#pragma once

#include <functional>
#include <string>

namespace simurgh {

// Mounts a tmpfs of `megabytes` MiB on an existing folder, for this process only. Call in a child
// process: it enters a mount namespace of its own. False if the process may not mount.
bool MountSmallFileSystem(const std::string& folder, int megabytes);

// Runs `work` in a child process. Returns its result, or -1 if the child ends in another way.
int RunInChild(const std::function<int()>& work);

}  // namespace simurgh
