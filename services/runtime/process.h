#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "services/runtime/http_endpoint.h"
#include "simurgh/base/status.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Adds the version, resident memory, uptime, clock and readiness of the process. role: label
// `service`. readiness: as for HttpEndpoint::Start.
void AddProcessMetrics(MetricRegistry& registry, const std::string& role,
                       std::function<Readiness()> readiness);

// Raises the soft limit of open files, usually 1,024, to the hard limit.
// key: the configuration key of `max_connections`.
// Errors: RESOURCE_EXHAUSTED if the hard limit is too low for `max_connections`, with the remedy.
Status RaiseOpenFiles(const char* key, uint32_t max_connections);

}  // namespace simurgh
