#pragma once

#include <functional>
#include <memory>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

struct Readiness {
  bool ready = false;
  std::string reason;  // One line; empty if ready.
};

struct HttpLimits {
  // A further connection closes the one whose request began longest ago, so that half requests
  // cannot keep others out.
  uint32_t connections = 64;
  uint32_t request_bytes = 8 * 1024;
  // From the start of a request to the end of the response.
  std::chrono::milliseconds request_timeout{10'000};
};

// An HTTP/1.1 server for GET and HEAD of /metrics (the registry), /healthz (200), /readyz (200,
// or 503 with the reason) and, if there is one, /configuration (lines "key = value"). It runs on
// its own thread from Start() until it is destroyed.
//
// Threads: any. The endpoint's thread calls `readiness`, which must not block.
// Lifetime: the registry and what `readiness` uses outlive the endpoint.
class HttpEndpoint {
 public:
  // address: "host:port"; port 0 takes any free port. key: its configuration key, for errors.
  // configuration: of /configuration; empty: 404.
  // Errors: INVALID_ARGUMENT if the address cannot be parsed or resolved; ALREADY_EXISTS if it is
  // in use; UNAVAILABLE for other errors of the system.
  static StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& address, const std::string& key, const MetricRegistry& registry,
      std::function<Readiness()> readiness, HttpLimits limits = {}, std::string configuration = "");
  virtual ~HttpEndpoint() = default;

  // The numeric "host:port" that the endpoint listens on.
  virtual const std::string& address() const = 0;
  // Whether only this machine can reach it.
  virtual bool is_loopback() const = 0;
};

}  // namespace simurgh
