#pragma once

#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "rpc/connection.h"
#include "rpc/control.h"
#include "rpc/deadline_timer.h"
#include "rpc/gate.h"
#include "rpc/request_task.h"
#include "rpc/server.h"
#include "rpc/sharing_handshake.h"
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
        connections(executor) {}

  const asio::any_io_executor executor;
  const Hello hello;
  const ServerOptions options;
  ObserverLink observer;
  std::unordered_map<uint32_t, Method> methods;
  std::unordered_set<ServerSession*> sessions;  // Those that have not been closed.
  std::list<ServerSession*> newcomers;          // Those not introduced yet; the oldest first.
  size_t admitted = 0;
  absl::flat_hash_map<std::string, uint32_t> admitted_by_host;
  Gate requests;  // Whose handlers run.
  Gate connections;
  bool draining = false;
};

// A server's side of one connection, from the peer's HELLO to the end.
//
// Threads: one, that of its executor. Lifetime: its reader and its requests keep it.
class ServerSession : public std::enable_shared_from_this<ServerSession> {
 public:
  // sharing: whose files the stream passes.
  ServerSession(std::shared_ptr<ServerCore> core, std::unique_ptr<Stream> stream,
                SharingHandshake sharing);
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
  // Errors: why the peer is refused.
  [[nodiscard]] awaitable<Status> ShakeHands();
  Status Admit(const PeerHello& peer) const;
  // Takes the peer's offer of shared memory, if it made one; returns our features.
  // Errors: why the peer is refused.
  StatusOr<uint64_t> Share(const PeerHello& peer);
  [[nodiscard]] awaitable<Status> ReadFrames();
  // The request to which the payload of the frame belongs; null when nobody wants it.
  // Errors: DATA_LOSS for a frame that may not come.
  StatusOr<std::shared_ptr<RequestTask>> OnFrame(IncomingFrame&& frame, Clock::time_point arrival);
  StatusOr<std::shared_ptr<RequestTask>> OnRequest(IncomingFrame&& frame,
                                                   Clock::time_point arrival);
  // Errors: DATA_LOSS, when the request may not come now.
  Status CheckRequest(const IncomingFrame& frame) const;
  // What the request takes of the peer's window.
  uint64_t Cost(uint64_t frame_bytes) const;
  // The request's method, or why it cannot be served.
  StatusOr<const Method*> MethodOf(const FrameHeader& header) const;
  // Tells the observer of a request whose handler was not started.
  void ReportUnstarted(const FrameHeader& header, uint64_t bytes, const Status& error);
  void OnCancel(uint64_t request_id);
  // Cancels the requests whose deadline has passed; returns the earliest of the others.
  Clock::time_point ExpireRequests(Clock::time_point now);
  // Cuts off a peer that stands still; returns when to look again.
  Clock::time_point CheckFlows(Clock::time_point now);
  // Requests that are complete and whose answers have not been written.
  size_t busy() const { return unanswered_.running() - arriving_; }
  // Whether to read on only when answers have left: before a request is read, and started.
  std::optional<ThrottleReason> MustWait() const;
  [[nodiscard]] awaitable<Status> WaitForAnswers();
  std::shared_ptr<RequestTask> IdleTask();
  // Forgets a request that has not arrived; the task may have another.
  void Discard(const std::shared_ptr<RequestTask>& task);
  void NoteArrived();
  // Lets the handler begin. Requires the whole request.
  void Start(const std::shared_ptr<RequestTask>& task);
  // The coroutine of a task.
  [[nodiscard]] static awaitable<void> Serve(std::shared_ptr<RequestTask> task);
  void Answer(RequestTask& task, StatusOr<OutgoingMessage> response);
  void LeaveNewcomers();
  void Leave();  // The core's books.

  const std::shared_ptr<ServerCore> core_;
  SharingHandshake sharing_;
  const std::shared_ptr<Connection> connection_;
  PeerHello peer_;
  std::shared_ptr<const Hello> hello_;  // The peer's, for its requests, which may outlive this.
  const std::string host_;              // Of the peer.
  std::list<ServerSession*>::iterator newcomer_;  // The end when it is none.
  bool admitted_ = false;
  Gate unanswered_;          // Requests whose answers have not been written.
  size_t arriving_ = 0;      // Those of them that are not complete,
  uint64_t arrivals_ = 0;    // and how often there have come to be none.
  DeadlineTimer deadlines_;  // Of tasks that run.
  DeadlineTimer looks_;      // At the flows.
  FlowWatch frames_;
  FlowWatch chunks_;  // Small frames are no excuse.
  FlowWatch outgoing_;
  uint64_t unanswered_bytes_ = 0;
  // By request, from its head to its answer.
  absl::flat_hash_map<uint64_t, std::shared_ptr<RequestTask>> tasks_;
  std::vector<std::shared_ptr<RequestTask>> idle_;
};

}  // namespace simurgh::rpc
