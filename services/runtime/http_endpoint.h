#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

struct Readiness {
  bool ready = false;
  std::string reason;  // One line; empty if ready.
};

// Of a recording for /trace.
inline constexpr uint32_t kMaxTraceSeconds = 60;

struct HttpLimits {
  // A further connection closes the one whose request began longest ago, so that half requests
  // cannot keep others out.
  uint32_t connections = 64;
  uint32_t request_bytes = 8 * 1024;
  // From the start of a request to the end of the response, without the time of a recording.
  std::chrono::milliseconds request_timeout{10'000};
};

// The head of a request, without its empty line.
struct EndpointRequest {
  std::string method;
  std::string target;  // Without the query.
  std::string query;
  bool keep_alive = false;

  // Returns nothing if the head is malformed or announces a body.
  static std::optional<EndpointRequest> Parse(const std::string& head);
};

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
  // address: "host:port"; port 0 takes any free port. key: its configuration key, for errors.
  // process: its name in traces, "embedding-ps/0". configuration: of /configuration; empty: 404.
  // Errors: INVALID_ARGUMENT if the address cannot be parsed or resolved; ALREADY_EXISTS if it is
  // in use; UNAVAILABLE for other errors of the system.
  static StatusOr<std::unique_ptr<HttpEndpoint>> Start(
      const std::string& address, const std::string& key, const std::string& process,
      const MetricRegistry& registry, std::function<Readiness()> readiness, HttpLimits limits = {},
      std::string configuration = "");
  virtual ~HttpEndpoint() = default;

  // The numeric "host:port" that the endpoint listens on.
  virtual const std::string& address() const = 0;
  // Whether only this machine can reach it.
  virtual bool is_loopback() const = 0;
};

}  // namespace simurgh
