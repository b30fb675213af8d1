#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/message.h"
#include "rpc/observer.h"

namespace simurgh::rpc {

class Sharing;
class TlsContext;

struct ServerOptions {
  // Ends on other machines must prove themselves, and so does the server: TCP is TLS.
  std::shared_ptr<const TlsContext> tls = nullptr;
  // Without TLS, whether to listen at all where other machines can reach it.
  bool insecure = false;
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_metadata_bytes = uint32_t{16} << 20;  // Of one frame.
  uint16_t max_segments = 65'535;                    // Of one frame.
  uint32_t max_connections = 1'024;
  uint32_t max_connections_per_host = 512;  // All Unix sockets are one host's.
  // Connections of peers that have not introduced themselves; when one more comes, the oldest goes.
  uint32_t max_newcomers = 128;
  std::chrono::milliseconds hello_timeout{5'000};  // From connecting to HELLO, over TLS too.
  uint32_t max_requests_per_connection = 1'024;    // At once; further ones wait unread.
  // Of the unanswered requests of one connection, but one request may always come: clients hold
  // back what is more.
  uint64_t max_request_bytes_per_connection = uint64_t{256} << 20;
  // Of answers that one peer has not read; beyond it, nothing further is read from it.
  uint64_t max_answer_bytes_per_connection = uint64_t{256} << 20;
  // How long a peer may stop in the middle of a frame or a message, and leave its answers unread.
  std::chrono::milliseconds stall_timeout{30'000};
  std::chrono::milliseconds unread_timeout{120'000};
  // As of a client.
  uint64_t shared_memory_bytes = uint64_t{1} << 30;
};

// A request in the hands of its handler.
struct Request {
  IncomingMessage message;
  Clock::time_point deadline;  // Clock::time_point::max() for none.
  Trace trace;
  std::shared_ptr<const Hello> peer;      // Never null.
  std::shared_ptr<Sharing> sharing = {};  // Null when no memory is shared.

  // Memory to produce a segment of the response in, so that answering copies nothing. Threads: any.
  SegmentBuffer Allocate(size_t bytes) const;
};

struct Method {
  MethodId id;          // Its name outlives the server.
  Placement placement;  // Where the segments of a request go.
  std::function<awaitable<StatusOr<OutgoingMessage>>(Request)> handle;
};

// Listens on one address and serves registered methods; requests of a connection run concurrently.
//
// A handler whose caller gives up, goes away or runs out of time is cancelled (Asio's terminal
// cancellation): what it waits for ends with operation_aborted, and its next co_await throws. What
// a handler throws is answered as INTERNAL.
//
// Threads: everything runs on the executor given, which must be a single thread's; call from there.
// Lifetime: Drain first, or stop the executor first: handlers may run until one of these.
class Server {
 public:
  Server(asio::any_io_executor executor, Hello hello, ServerOptions options, Observer* observer);
  ~Server();

  // Before Listen.
  void Register(Method method);

  // address: see rpc/address.h.
  // Errors: INVALID_ARGUMENT for an address that cannot be parsed; ALREADY_EXISTS when it is in
  // use; FAILED_PRECONDITION when other machines can reach it, and there is neither TLS nor leave.
  Status Listen(const std::string& address);

  // The address listened on, with the port chosen.
  std::string address() const;

  // Graceful end: accepts nothing more, answers what has arrived until `deadline`, cancels the
  // rest, closes. Returns when no handler runs any more.
  [[nodiscard]] awaitable<void> Drain(Clock::time_point deadline);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace simurgh::rpc
