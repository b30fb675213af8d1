#pragma once

#include <string>

#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Adds the version, resident memory and uptime of the process. role: label `service`.
void AddProcessMetrics(MetricRegistry& registry, const std::string& role);

}  // namespace simurgh
