#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/message.h"

namespace simurgh::rpc {

class Listener;
class Sharing;
class TlsContext;
class Token;
struct ServerCore;

struct ServerOptions {
  // Used for TCP connections; null for no TLS. Both ends present certificates.
  std::shared_ptr<const TlsContext> tls = nullptr;
  // Both ends must prove the same token, or neither has one. Null: none.
  std::shared_ptr<const Token> token = nullptr;
  // Allows listening without TLS on an address that other machines can reach.
  bool insecure = false;
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_metadata_bytes = uint32_t{16} << 20;
  uint16_t max_segments = 65'535;
  // Memory for all connections: half of it for incomplete requests and small answers, half for
  // large answers, from the start of the handler until they are sent. A larger message takes all of
  // a half. Further requests wait unread in the order of their arrival, however long handlers take.
  // If no waiting request gets memory for a quarter of stall_timeout, the server closes the
  // connection that holds most of it for its client: for requests to arrive and for answers to be
  // read.
  uint64_t peer_bytes = uint64_t{1} << 30;
  // At these limits, a new connection replaces the one that is idle longest: without a call so far,
  // or since its last answer for replace_after. If none is idle, the new connection is refused.
  uint32_t max_connections = 1'024;
  uint32_t max_connections_per_host = 512;  // All Unix sockets count as one host.
  std::chrono::milliseconds replace_after{60'000};
  // Connections without HELLO. Another one closes the oldest.
  uint32_t max_newcomers = 128;
  std::chrono::milliseconds hello_timeout{5'000};  // Limit from accept to HELLO, including TLS.
  uint32_t max_requests_per_connection = 1'024;    // Unanswered; further ones remain unread.
  // The window: bytes of unanswered requests of a connection. Clients hold back further requests; a
  // larger request takes the whole window.
  uint64_t max_request_bytes_per_connection = uint64_t{256} << 20;
  // Bytes of unsent answers above which the server stops reading from a connection.
  uint64_t max_answer_bytes_per_connection = uint64_t{256} << 20;
  // Closes the connection of a client that stops within a frame or message, or that does not read
  // its answers.
  std::chrono::milliseconds stall_timeout{30'000};
  std::chrono::milliseconds unread_timeout{120'000};
  // See ClientOptions.
  uint64_t shared_memory_bytes = uint64_t{1} << 30;
};

// A request, as passed to its handler.
struct Request {
  IncomingMessage message;
  std::shared_ptr<void> context = {};  // Placed::context.
  Clock::time_point deadline;          // Clock::time_point::max() for none.
  Trace trace;
  std::shared_ptr<const Hello> peer;                // Never null.
  std::shared_ptr<Sharing> sharing = {};            // Null without shared memory.
  std::atomic<uint64_t>* largest_answer = nullptr;  // See Method.

  // Memory for a segment of the response; sending it copies nothing. Threads: any.
  SegmentBuffer Allocate(size_t bytes) const;
};

struct Method {
  MethodId id;  // The name outlives the server.
  // Refuses requests whose head (tables and metadata) is larger; heads below 28 KiB are accepted in
  // any case.
  uint64_t max_head_bytes = UINT64_MAX;
  Placement placement;  // Destinations of requests.
  std::function<awaitable<StatusOr<OutgoingMessage>>(Request)> handle;
  // Size of the largest answer so far. The server updates it.
  std::shared_ptr<std::atomic<uint64_t>> largest_answer =
      std::make_shared<std::atomic<uint64_t>>(0);
};

// Listens on one address and serves the registered methods. Requests run concurrently.
//
// A handler is cancelled (Asio's terminal cancellation) at the deadline, on CANCEL and when the
// connection ends: its wait ends with operation_aborted, and its next co_await throws. An exception
// from a handler is answered with INTERNAL.
//
// Threads: that of the executor, which must have a single thread.
// Lifetime: handlers may run until Drain() has returned or the executor has stopped.
class Server {
 public:
  Server(asio::any_io_executor executor, Hello hello, const ServerOptions& options,
         Observer* observer);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Requires that Listen() has not been called.
  void Register(Method method);

  // address: see rpc/address.h.
  // Errors: INVALID_ARGUMENT for a malformed address; ALREADY_EXISTS when it is in use;
  // FAILED_PRECONDITION when other machines can reach it, without TLS and `insecure`.
  Status Listen(const std::string& address);

  // The listening address, with the actual port.
  std::string address() const;

  // Stops accepting, sends GOAWAY, answers the requests that have arrived until `deadline`, cancels
  // the others and closes all connections. Returns when no handler runs.
  [[nodiscard]] awaitable<void> Drain(Clock::time_point deadline);

 private:
  void StopListening();

  const std::shared_ptr<ServerCore> core_;
  std::vector<std::shared_ptr<Listener>> listeners_;
};

}  // namespace simurgh::rpc
