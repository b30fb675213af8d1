#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/message.h"

namespace simurgh::rpc {

class TlsContext;
class Token;

struct ClientOptions {
  // Used for TCP servers; null for no TLS.
  std::shared_ptr<const TlsContext> tls = nullptr;
  // Both ends must prove the same token, or neither has one. Null: none.
  std::shared_ptr<const Token> token = nullptr;
  std::chrono::milliseconds connect_timeout{5'000};
  // Doubles with jitter up to the maximum; resets after a connection that answered a call.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{2'000};
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_metadata_bytes = uint32_t{16} << 20;
  uint16_t max_segments = 65'535;
  // Closes the connection to a server that stops within a frame or message for this long.
  std::chrono::milliseconds stall_timeout{30'000};
  // Size of the shared memory region for sending, per connection. Pages are allocated on use. 0
  // disables shared memory.
  uint64_t shared_memory_bytes = uint64_t{1} << 30;
  // Checks the server's role and index, after the cluster. The client refuses the server with the
  // returned error, like a server of another cluster. With a token, the client also calls it before
  // it sends its HELLO, with a `server` that has only role and index. Null: no further check.
  std::function<Status(const Hello& server)> check_server = nullptr;
};

// Calls to one server over one connection, any number in flight. The client connects on first use
// and reconnects with jittered back-off; a call waits for the connection within its deadline and
// patience.
//
// Threads: that of the executor, which must have a single thread.
// Lifetime: outlives every call, or Stop() and all calls have returned.
class Client {
 public:
  // address: see rpc/address.h. observer: may be null, must outlive the client.
  Client(asio::any_io_executor executor, std::string address, Hello hello,
         const ClientOptions& options, Observer* observer);
  ~Client();

  // Sends a request and receives the response into the destinations that `placement` names.
  // Errors: code and message of the handler's error; UNAVAILABLE when the server cannot be reached
  // or the connection is lost, whether or not the handler ran; DEADLINE_EXCEEDED; INVALID_ARGUMENT
  // when the HELLOs do not match, or of check_server; UNAUTHENTICATED when one end does not trust
  // the other.
  [[nodiscard]] awaitable<StatusOr<IncomingMessage>> Call(MethodId method, OutgoingMessage request,
                                                          Placement placement, CallOptions options);

  // Memory for a segment of a request; sending it on the current connection copies nothing.
  SegmentBuffer Allocate(size_t bytes);

  // The server's HELLO of the current connection, or null.
  // Lifetime: until the executor runs another handler.
  const Hello* peer() const;

  // Fails the calls in flight with CANCELLED and closes the connection. When they have returned,
  // the executor holds no work of the client, except a name lookup in progress.
  void Stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace simurgh::rpc
