#include "tests/support/small_file_system.h"

#include <fstream>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace simurgh {
namespace {

// Root may anyway; others may where they are root of a name space.
bool MayMount() {
  if (unshare(CLONE_NEWNS) == 0) return true;
  const std::string user = "0 " + std::to_string(getuid()) + " 1";
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/uid_map") << user << std::flush;
  return getuid() == 0;
}

}  // namespace

bool MountSmallFileSystem(const std::string& folder, int megabytes) {
  const std::string size = "size=" + std::to_string(megabytes) + "m";
  return MayMount() && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

int RunInChild(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  return ended ? WEXITSTATUS(status) : -1;
}

}  // namespace simurgh
