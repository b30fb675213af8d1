#pragma once

#include <cstdint>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Adds the version, resident memory and uptime of the process. role: label `service`.
void AddProcessMetrics(MetricRegistry& registry, const std::string& role);

// Raises the soft limit of open files, usually 1,024, to the hard limit.
// key: the configuration key of `max_connections`.
// Errors: RESOURCE_EXHAUSTED if the hard limit is too low for `max_connections`, with the remedy.
Status RaiseOpenFiles(const char* key, uint32_t max_connections);

}  // namespace simurgh
