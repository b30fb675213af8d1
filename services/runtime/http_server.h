#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "base/status.h"
#include "services/runtime/http_parser.h"
#include "telemetry/metrics.h"

namespace simurgh {

// An HTTP/1.1 server on a thread.
//
// Memory: each connection has a buffer of limits.header_bytes. Bodies that are received or being
// answered have at most max_received_bytes together; beyond that, the request that has been
// received for longest gets 503, or the new one if all are being answered. A connection beyond
// max_connections closes the one that has waited longest for a request or its rest; if all are
// being answered, it is closed itself.
//
// Threads: one owner. Lifetime: handler and registry outlive it. All requests must have been
// answered when it is destroyed: Drain() first, then end the threads that answer.
class HttpServer {
 public:
  struct Options {
    std::string address;  // "host:port"; port 0: any free one.
    std::string key;      // Configuration key of the address, for errors.
    bool only_loopback = false;
    uint32_t max_connections = 1'024;
    uint64_t max_received_bytes = uint64_t{256} << 20;
    // Maximum time from the first byte of a request to its last, and maximum time of the response.
    std::chrono::milliseconds request_timeout{10'000};
    HttpParser::Limits limits;
  };

  // tls: null for plain TCP.
  // Errors: those of ListenAt; INVALID_ARGUMENT for an address that other machines can reach, with
  // only_loopback.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, HttpHandler& handler,
                                                     std::shared_ptr<SSL_CTX> tls,
                                                     MetricRegistry& registry);
  virtual ~HttpServer() = default;

  // The numeric "host:port".
  virtual const std::string& address() const = 0;
  // Returns whether only this machine can reach the server.
  virtual bool is_loopback() const = 0;
  // Sets the certificate of later connections. Requires a server that was started with TLS.
  virtual void SetTls(std::shared_ptr<SSL_CTX> tls) = 0;

  // Stops accepting connections, closes those without a request, answers the others and closes
  // them; at the deadline closes all that are left.
  virtual void Drain(std::chrono::steady_clock::time_point deadline) = 0;
};

// Returns the metric of the time that a stage of a request takes.
Histogram& StageSeconds(MetricRegistry& registry, const char* stage);

}  // namespace simurgh
