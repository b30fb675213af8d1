#pragma once

#include <functional>
#include <string>

#include "services/runtime/http_endpoint.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Adds the version, resident memory, uptime and readiness of the process. role: label `service`.
// readiness: as for HttpEndpoint::Start.
void AddProcessMetrics(MetricRegistry& registry, const std::string& role,
                       std::function<Readiness()> readiness);

}  // namespace simurgh
