#pragma once

#include <string>

#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// What every process reports of itself: simurgh_build_info, simurgh_process_resident_bytes,
// simurgh_process_uptime_seconds (from this call on). Once a registry.
void AddProcessMetrics(MetricRegistry& registry, const std::string& service);

}  // namespace simurgh
