#pragma once

#include <functional>
#include <memory>
#include <ostream>

#include "base/status.h"
#include "config/serving_config.h"
#include "services/serving/scoring_backend.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Functions that the server needs besides its configuration.
struct ServingParts {
  // Called once. Must not wait for a version: the server listens meanwhile, and is not ready. The
  // registry outlives the backend.
  std::function<StatusOr<std::unique_ptr<ScoringBackend>>(const ServingConfig& config,
                                                          MetricRegistry& registry)>
      make_backend;
  // Reads the configuration again, after SIGHUP.
  std::function<StatusOr<ServingConfig>()> reload;
};

// Serves until SIGTERM or SIGINT, then answers the requests that have arrived. Prints the address
// in one line to `out` when it listens. SIGHUP reads the certificate, the tokens and the version
// again; after an error, which is logged, nothing has changed.
//
// Threads: call it before starting threads, see StopSignals.
// Errors: INVALID_ARGUMENT for the configuration, or an address in use; those of make_backend.
Status RunServing(const ServingConfig& config, const ServingParts& parts, std::ostream& out);

}  // namespace simurgh
