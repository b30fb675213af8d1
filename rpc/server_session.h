#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "rpc/connection.h"
#include "rpc/control.h"
#include "rpc/deadline_timer.h"
#include "rpc/gate.h"
#include "rpc/server.h"
#include "rpc/transport.h"
#include "rpc/watchdog.h"

namespace simurgh::rpc {

class ServerSession;

// What the connections of one server share.
struct ServerCore {
  ServerCore(asio::any_io_executor on, Hello own, ServerOptions limits, Observer* reports)
      : executor(std::move(on)),
        hello(std::move(own)),
        options(limits),
        observer(reports),
        requests(executor),
        connections(executor),
        handshakes(executor) {}

  const asio::any_io_executor executor;
  const Hello hello;
  const ServerOptions options;
  ObserverLink observer;
  std::unordered_map<uint32_t, Method> methods;
  std::unordered_set<ServerSession*> sessions;  // Those that have not been closed.
  size_t admitted = 0;                          // Of them.
  Gate requests;                                // Whose handlers run.
  Gate connections;
  Gate handshakes;  // Connections that have not introduced themselves.
  bool draining = false;
};

// A server's side of one connection, from the peer's HELLO to the end.
//
// Threads: one, that of its executor. Lifetime: its reader and its requests keep it.
class ServerSession : public std::enable_shared_from_this<ServerSession> {
 public:
  ServerSession(std::shared_ptr<ServerCore> core, std::unique_ptr<Stream> stream);
  ~ServerSession();

  // Serves the connection until it ends.
  [[nodiscard]] awaitable<void> Run();

  // Asks the peer to close once it has its answers.
  void SayGoaway();

  // Waits until all requests have been answered. False when the deadline passed first.
  [[nodiscard]] awaitable<bool> Answered(Clock::time_point deadline);

  // Closes the connection and cancels its requests.
  void Close(const Status& reason);

 private:
  struct Arrival;
  struct Running;

  // Errors: why the peer is refused.
  [[nodiscard]] awaitable<Status> ShakeHands();
  Status Admit(const PeerHello& peer) const;
  [[nodiscard]] awaitable<Status> ReadFrames();
  [[nodiscard]] awaitable<Status> OnRequest(IncomingFrame frame);
  [[nodiscard]] awaitable<Status> OnChunk(uint64_t request_id);
  // Errors: DATA_LOSS, when the request may not come now.
  Status CheckRequest(const FrameHeader& header) const;
  // What the request takes of the peer's window.
  uint64_t Cost(const FrameHeader& header) const;
  // The request's method, or why it cannot be served.
  StatusOr<const Method*> MethodOf(const FrameHeader& header) const;
  [[nodiscard]] awaitable<Status> Refuse(const IncomingFrame& frame, const Status& error);
  // The error as the peer accepts it.
  OutgoingFrame AnswerWith(uint64_t request_id, const Status& error, uint16_t flags) const;
  void OnCancel(uint64_t request_id);
  // Cancels the requests whose deadline has passed; returns the earliest of the others.
  Clock::time_point ExpireRequests(Clock::time_point now);
  void Start(std::unique_ptr<Arrival> arrival);
  [[nodiscard]] awaitable<void> Handle(std::shared_ptr<Running> running, Request request);
  void Leave();  // The core's books.
  void Answer(Running& running, StatusOr<OutgoingMessage> response);

  const std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<Connection> connection_;
  PeerHello peer_;
  bool admitted_ = false;
  Gate unanswered_;          // Requests whose answers have not been written.
  DeadlineTimer deadlines_;  // Of running_.
  uint64_t unanswered_bytes_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Arrival>> arrivals_;  // In chunks, by request.
  std::unordered_map<uint64_t, std::shared_ptr<Running>> running_;
};

}  // namespace simurgh::rpc
