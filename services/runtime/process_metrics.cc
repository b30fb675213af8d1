#include "services/runtime/process_metrics.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <utility>

#include <unistd.h>

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
  registry.AddComputedGauge(
      "simurgh_process_uptime_seconds", "Time since the process started.", {},
      [start = std::chrono::steady_clock::now()] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
}

}  // namespace simurgh
