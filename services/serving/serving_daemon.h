#pragma once

#include <functional>
#include <memory>
#include <ostream>

#include "base/status.h"
#include "config/serving_config.h"
#include "services/serving/scoring_backend.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Called once. Must not wait for a version: the server listens meanwhile, and is not ready. The
// registry outlives the backend.
using MakeBackend = std::function<StatusOr<std::unique_ptr<ScoringBackend>>(
    const ServingConfig& config, MetricRegistry& registry)>;

// A server: RunServing, but for signals. A program that is no daemon can have one.
//
// Threads: one owner.
class StartedServing {
 public:
  explicit StartedServing(const ServingConfig& config);
  // Requires: Start() has failed, or Drain() has returned.
  ~StartedServing();
  StartedServing(const StartedServing&) = delete;
  StartedServing& operator=(const StartedServing&) = delete;

  // Call once. Errors: INVALID_ARGUMENT for the configuration, or an address in use; those of
  // make_backend.
  Status Start(const MakeBackend& make_backend);

  // The numeric "host:port".
  const std::string& address() const;
  // The address of the model in the protocol v2.
  std::string url() const;
  // Applies the certificate, the tokens and the version. After an error nothing has changed.
  Status Reload(const ServingConfig& config);
  // Answers the requests that have arrived, and ends the backend. Must be the last call.
  void Drain();

 private:
  struct State;

  const std::unique_ptr<State> state_;
};

// Functions that the server needs besides its configuration.
struct ServingParts {
  MakeBackend make_backend;
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
