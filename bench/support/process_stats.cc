#include "bench/support/process_stats.h"

#include <ctime>
#include <fstream>
#include <string>

#include <unistd.h>

#include "base/check.h"

namespace simurgh::bench {
namespace {

std::string ProcFile(pid_t process, const char* name) {
  return "/proc/" + std::to_string(process) + "/" + name;
}

}  // namespace

double CpuSeconds(pid_t process) {
  clockid_t clock{};
  SIMURGH_CHECK(::clock_getcpuclockid(process, &clock) == 0) << "no such process: " << process;
  timespec time{};
  SIMURGH_CHECK(::clock_gettime(clock, &time) == 0) << "CPU clock of process " << process;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double CpuSecondsOfMachine() {
  std::ifstream stat("/proc/stat");
  std::string label;
  // user nice system idle iowait irq softirq: see proc(5).
  double ticks[7] = {};
  if (!(stat >> label)) return 0;
  for (double& one : ticks) stat >> one;
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Memory MemoryOf(pid_t process) {
  Memory memory;
  std::ifstream status(ProcFile(process, "status"));
  std::string key;
  while (status >> key) {
    uint64_t kib = 0;
    if (key == "VmRSS:" && status >> kib) memory.resident_bytes = kib * 1024;
    if (key == "VmHWM:" && status >> kib) memory.peak_bytes = kib * 1024;
  }
  return memory;
}

void ForgetPeak(pid_t process) { std::ofstream(ProcFile(process, "clear_refs")) << "5"; }

}  // namespace simurgh::bench
