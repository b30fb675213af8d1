#pragma once

#include <functional>
#include <memory>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

struct Readiness {
  bool ready = false;
  std::string reason;  // Why not; one line.
};

// What the endpoint tolerates of its clients.
struct HttpLimits {
  uint32_t connections = 64;  // Beyond it a connection is closed as soon as it is accepted.
  uint32_t request_bytes = 8 * 1024;
  std::chrono::milliseconds request_timeout{
      10'000};  // To send a whole request, or to take an answer.
};

// Serves GET and HEAD of /metrics (the registry), /healthz (200 while the process lives) and
// /readyz (200, or 503 with the reason) over HTTP/1.1, on a thread of its own, from Start until it
// is destroyed.
//
// Threads: any. `readiness` is called on the endpoint's thread and must not block.
// Lifetime: within the registry's and that of what `readiness` uses.
class HttpEndpoint {
 public:
  // address: "host:port"; port 0 takes any free one. key: the configuration key it came from, for
  // messages. Errors: INVALID_ARGUMENT for an address that cannot be parsed or resolved;
  // ALREADY_EXISTS when it is in use; UNAVAILABLE when the system refuses it otherwise.
  static StatusOr<std::unique_ptr<HttpEndpoint>> Start(const std::string& address,
                                                       const std::string& key,
                                                       const MetricRegistry& registry,
                                                       std::function<Readiness()> readiness,
                                                       HttpLimits limits = {});
  ~HttpEndpoint();

  // "host:port" with numbers, as listened on.
  std::string address() const;

 private:
  class Impl;
  explicit HttpEndpoint(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
