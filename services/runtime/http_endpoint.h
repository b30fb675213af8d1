#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "telemetry/metrics.h"

namespace simurgh {

struct Readiness {
  bool ready = false;
  std::string reason;  // One line; empty if ready.
};

// Longest recording that /trace makes.
inline constexpr uint32_t kMaxTraceSeconds = 60;

// An HTTP/1.1 server for GET and HEAD of
//
//   /metrics           the registry
//   /healthz           200
//   /readyz            200, or 503 with the reason
//   /configuration     lines "key = value", if there are some
//   /trace/clock       the time of the clock of traces in ns, and a name of the clock: processes
//                      whose clocks have one name share the clock; empty if unknown
//
// and GET of
//
//   /trace?seconds=N   records a Timeline for N seconds, 1 to kMaxTraceSeconds, and answers with
//                      its JSON; 409 while another recording is in progress
//
// It runs on its own thread from Start() until it is destroyed.
//
// Threads: any. The endpoint's thread calls `readiness`, which must not block.
// Lifetime: the registry and what `readiness` uses outlive the endpoint.
class HttpEndpoint {
 public:
  struct Options {
    std::string address;             // "host:port"; port 0 takes any free port.
    std::string key;                 // Configuration key of the address, for errors.
    std::string process;             // Name of the process in traces, "embedding-ps/0".
    std::string configuration = {};  // Answer of /configuration; empty: 404.
    bool is_public = false;          // False: logs a warning if other machines can read it.
    uint32_t max_connections = 64;   // See HttpServer.
    std::chrono::milliseconds request_timeout{10'000};
  };

  // Errors: INVALID_ARGUMENT if the address cannot be parsed or resolved; ALREADY_EXISTS if it is
  // in use; UNAVAILABLE for other errors of the system.
  static StatusOr<std::unique_ptr<HttpEndpoint>> Start(Options options,
                                                       const MetricRegistry& registry,
                                                       std::function<Readiness()> readiness);
  virtual ~HttpEndpoint() = default;

  // The numeric "host:port" that the endpoint listens on.
  virtual const std::string& address() const = 0;
};

}  // namespace simurgh
