#include "services/runtime/machine_limits.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <system_error>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>

#include "base/status.h"

namespace simurgh {
namespace {

// Measured with `nn-worker --standalone` on two processors: below 220 MiB and 100 KiB, allocators
// and libraries of matrices fail by signals. Each thread has a stack and an arena.
constexpr uint64_t kLeastAddressSpace = uint64_t{256} << 20;
constexpr uint64_t kPerProcessor = uint64_t{16} << 20;
constexpr uint64_t kLeastStack = uint64_t{256} << 10;

void Check(const char* argv0, int resource, uint64_t least, const char* what, const char* remedy) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur >= least) return;
  const char* const slash = std::strrchr(argv0, '/');
  char text[256];
  const int bytes = std::snprintf(
      text, sizeof(text), "%s: error: the limit of %s is %llu KiB; allow at least %llu KiB (%s)\n",
      slash == nullptr ? argv0 : slash + 1, what,
      static_cast<unsigned long long>(limit.rlim_cur >> 10),
      static_cast<unsigned long long>(least >> 10), remedy);
  (void)!::write(STDERR_FILENO, text, std::min(sizeof(text) - 1, static_cast<size_t>(bytes)));
  ::_exit(static_cast<int>(ExitCode::kRuntimeFailure));
}

void CheckLimits(int /*argc*/, char** argv, char** /*environment*/) {
  cpu_set_t own;
  const uint64_t processors = ::sched_getaffinity(0, sizeof(own), &own) == 0 ? CPU_COUNT(&own) : 1;
  Check(argv[0], RLIMIT_AS, kLeastAddressSpace + processors * kPerProcessor, "address space",
        "ulimit -v");
  Check(argv[0], RLIMIT_STACK, kLeastStack, "stacks", "ulimit -s");
}

// Runs before the constructors of shared libraries, some of which crash without memory.
__attribute__((section(".preinit_array"), used)) void (*const kCheckLimits)(int, char**,
                                                                            char**) = CheckLimits;

}  // namespace

ExitCode ReportException(const char* program, const std::exception& error) {
  int number = 0;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) number = ENOMEM;
  if (const auto* const one = dynamic_cast<const std::system_error*>(&error)) {
    number = one->code().value();
  }
  if (const auto* const one = dynamic_cast<const boost::system::system_error*>(&error)) {
    number = one->code().value();
  }
  std::cerr << program << ": error: " << error.what() << RemedyOf(number) << "\n";
  return ExitCode::kRuntimeFailure;
}

}  // namespace simurgh
