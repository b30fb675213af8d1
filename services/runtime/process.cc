#include "services/runtime/process.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/version.h"

namespace simurgh {
namespace {

// Source: proc(5), /proc/pid/statm: total and resident pages.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Connections to other daemons, data, metrics and logs.
constexpr uint64_t kOtherFiles = 128;

}  // namespace

void AddProcessMetrics(MetricRegistry& registry, const std::string& role,
                       std::function<Readiness()> readiness) {
  registry
      .GetGauge("simurgh_build_info", "Always 1; the labels name the program.",
                {{"service", role}, {"version", Version()}})
      .Set(1);
  registry.AddComputedGauge(
      "simurgh_process_ready", "1 if /readyz answers 200, else 0.", {},
      [readiness = std::move(readiness)] { return readiness().ready ? 1 : 0; });
  registry.AddComputedGauge("simurgh_process_resident_bytes", "Resident memory.", {},
                            ResidentBytes);
  registry.AddComputedGauge("simurgh_process_time_seconds",
                            "Unix time of the machine, to compare clocks.", {}, [] {
                              const auto now = std::chrono::system_clock::now();
                              return std::chrono::duration<double>(now.time_since_epoch()).count();
                            });
  registry.AddComputedGauge(
      "simurgh_process_uptime_seconds", "Time since the process started.", {},
      [start = std::chrono::steady_clock::now()] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
}

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
