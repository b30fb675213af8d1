#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "rpc/async.h"
#include "rpc/connection.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "rpc/sharing.h"
#include "rpc/timers.h"
#include "rpc/window.h"

namespace simurgh::rpc {

class ServerSession;

// Raises `largest` to at least `bytes`. Threads: any.
inline void Raise(std::atomic<uint64_t>& largest, uint64_t bytes) {
  uint64_t before = largest;
  while (before < bytes && !largest.compare_exchange_weak(before, bytes)) continue;
}

// A request with the coroutine that handles it. After the answer the coroutine waits for another
// request, because starting one costs as much as the rest of a small call.
//
// Threads: that of the session's executor.
struct RequestTask {
  const Method* method = nullptr;
  uint64_t id = 0;
  Trace trace;
  uint64_t bytes = 0;         // Metadata and payload.
  uint64_t cost = 0;          // Bytes of the window.
  Clock::time_point start;    // Arrival of the request.
  Clock::time_point handled;  // Start of the handler.
  Clock::time_point deadline;
  std::optional<IncomingPayload> payload;  // Set until the handler begins.
  std::shared_ptr<void> context;           // Placed::context, until the handler begins.
  Gate::Pass unanswered;                   // Held until the answer is written.
  WindowShare answer_share;                // Memory for the answer, until it is written.
  Gate::Pass in_handler;                   // Held while the handler runs.
  std::shared_ptr<ServerSession> session;  // Passed to the coroutine when the handler begins.
  bool running = false;                    // The handler has begun.

  asio::cancellation_signal cancel;
  bool spawned = false;
  bool ended = false;  // No further request.
  Suspension request;  // Resumed for the next request.
};

// State shared by the connections of a server.
struct ServerCore {
  ServerCore(asio::any_io_executor on, Hello own, const ServerOptions& limits, Observer* reports)
      : executor(std::move(on)),
        hello(std::move(own)),
        options(limits),
        observer(reports),
        request_memory(std::make_shared<Window>(executor, limits.peer_bytes / 2)),
        answer_memory(std::make_shared<Window>(executor, limits.peer_bytes / 2)),
        requests(executor),
        connections(executor) {}

  const asio::any_io_executor executor;
  const Hello hello;
  const ServerOptions options;
  ObserverLink observer;
  std::unordered_map<uint32_t, Method> methods;
  std::unordered_set<ServerSession*> sessions;  // Open sessions.
  std::list<ServerSession*> newcomers;          // Sessions without HELLO; the oldest first.
  size_t admitted = 0;
  absl::flat_hash_map<std::string, uint32_t> admitted_by_host;
  // See ServerOptions::peer_bytes. Handlers that others wait for have small answers, so no handler
  // holds memory that such a request needs.
  const std::shared_ptr<Window> request_memory;
  const std::shared_ptr<Window> answer_memory;
  Gate requests;  // Requests with running handlers.
  Gate connections;
  bool draining = false;
};

// The server's side of one connection.
//
// Threads: that of the executor. Lifetime: the reading coroutine and the requests keep it.
class ServerSession : public std::enable_shared_from_this<ServerSession> {
 public:
  // sharing: passes its files over the stream.
  ServerSession(std::shared_ptr<ServerCore> core, const std::shared_ptr<Stream>& stream,
                SharingHandshake sharing);
  ~ServerSession();

  // Serves the connection until it ends.
  [[nodiscard]] awaitable<void> Run();

  // Sends GOAWAY: the client closes the connection after its last answer.
  void SendGoaway() {
    // A client that is not admitted has its HELLO refused.
    if (admitted_) connection_->Send({.header = {.kind = FrameKind::kGoaway}});
  }

  // Waits until all requests are answered. Returns false when the deadline passed first.
  [[nodiscard]] awaitable<bool> Answered(Clock::time_point deadline) {
    return unanswered_.WaitUntilAtMost(0, deadline);
  }

  // Closes the connection and cancels its requests.
  void Close(const Status& reason);

 private:
  // Errors: the reason for refusing the client.
  [[nodiscard]] awaitable<Status> ShakeHands();
  // Reads the client's HELLO and exchanges proofs of the token.
  [[nodiscard]] awaitable<StatusOr<PeerHello>> ReadHello();
  // Sends an ERROR and closes. Returns `reason`. told: what the client may know of it.
  [[nodiscard]] awaitable<Status> Refuse(Status reason, Status told);
  Status Admit();
  // Closes the connection that is idle longest, of this host or of all, if the limits of
  // connections leave no room for this one.
  void MakeRoom();
  // Admits the client and accepts its offer of shared memory, if any. Returns the features of this
  // end.
  StatusOr<uint64_t> AdmitAndShare();
  [[nodiscard]] awaitable<Status> ReadFrames();
  // The argument of Connection::AdmitLargeHeadsBy().
  [[nodiscard]] awaitable<Status> AdmitLargeHead(IncomingFrame& request);
  // Takes the memory that a request of `bytes` still lacks: first that of its answer, then its own.
  // Returns false if it must wait.
  bool TryTakeMemory(IncomingFrame& request, uint64_t bytes) const;
  // Waits for the memory that TryTakeMemory() takes. Errors: UNAVAILABLE.
  [[nodiscard]] awaitable<Status> AwaitMemory(IncomingFrame& request, uint64_t bytes);
  using Memory = std::shared_ptr<WindowHolding> ServerSession::*;
  [[nodiscard]] awaitable<StatusOr<WindowShare>> Await(Memory memory, uint64_t cost);
  // Returns the memory of a large answer, from the method's largest answer so far; 0 if its answers
  // are small.
  uint64_t AnswerCost(const FrameHeader& request) const;
  // The bytes that this session holds until its client sends or reads more.
  uint64_t BytesOfClient(Memory memory) const;
  // Sends a frame that ends a request.
  void SendAnswer(OutgoingFrame&& frame, Gate::Pass unanswered, WindowShare share = {});
  // The request that the frame's payload belongs to; null: skip the payload.
  // Errors: DATA_LOSS for a frame that the client must not send.
  StatusOr<std::shared_ptr<RequestTask>> OnFrame(IncomingFrame&& frame, Clock::time_point arrival);
  StatusOr<std::shared_ptr<RequestTask>> OnRequest(IncomingFrame&& frame,
                                                   Clock::time_point arrival);
  // Errors: DATA_LOSS when the id is in use or the window is exceeded.
  Status CheckRequest(const IncomingFrame& frame) const;
  // The bytes of the window that a request takes.
  uint64_t Cost(uint64_t frame_bytes) const {
    return std::min(frame_bytes, core_->options.max_request_bytes_per_connection);
  }
  // Reports a request whose handler did not start.
  void ReportUnstarted(const FrameHeader& header, uint64_t bytes, const Status& error);
  void OnCancel(uint64_t request_id);
  // Cancels the requests whose deadline has passed; returns the earliest other deadline.
  Clock::time_point ExpireRequests(Clock::time_point now);
  // Closes the connection of the server with the most BytesOfClient().
  void CloseLargest(Memory memory);
  // Closes a stalled connection; returns when to check again.
  Clock::time_point CheckFlows(Clock::time_point now);
  // Complete requests whose answers have not been written.
  size_t busy() const { return unanswered_.running() - arriving_; }
  // Returns a reason if answers must leave before a request is read or started.
  std::optional<ThrottleReason> MustWait() const;
  [[nodiscard]] awaitable<Status> WaitForAnswers();
  // Drops an incomplete request and recycles its task.
  void Discard(const std::shared_ptr<RequestTask>& task);
  void NoteArrived() {
    if (--arriving_ == 0) ++arrivals_;
  }
  // Starts the handler. Requires a complete request.
  void Start(const std::shared_ptr<RequestTask>& task);
  // The coroutine of a task.
  [[nodiscard]] static awaitable<void> Serve(std::shared_ptr<RequestTask> task);
  void Answer(RequestTask& task, StatusOr<OutgoingMessage> response);
  void Leave();  // Removes the session from the core.

  // Approximate memory of a message besides its bytes.
  static constexpr uint64_t kOverheadBytes = 1'024;
  static constexpr uint64_t kSmallAnswerBytes = 4'096;

  const std::shared_ptr<ServerCore> core_;
  SharingHandshake sharing_;
  const std::shared_ptr<Connection> connection_;
  PeerHello peer_;
  std::shared_ptr<const Hello> hello_;  // The client's; requests may outlive the session.
  const std::string host_;              // The client's address without the port.
  bool admitted_ = false;
  bool has_called_ = false;
  Clock::time_point idle_since_ = Clock::now();  // Time of the admission or the last answer.
  Gate unanswered_;                              // Requests whose answers have not been written.
  size_t arriving_ = 0;                          // Incomplete requests in unanswered_.
  uint64_t arrivals_ = 0;                        // Times that arriving_ became 0.
  // Every byte taken from the server's memory is held by one session.
  std::shared_ptr<WindowHolding> request_memory_;
  std::shared_ptr<WindowHolding> answer_memory_;
  const IncomingFrame* waiting_ = nullptr;  // The request that waits; valid with `awaited_`.
  Memory awaited_ = nullptr;                // The memory that it waits for, if one does.
  std::optional<uint64_t> turns_;           // The memory's turns at the last check of the wait.
  DeadlineTimer deadlines_;                 // Times out running tasks.
  DeadlineTimer flow_timer_;
  FlowWatch outgoing_;
  uint64_t unanswered_bytes_ = 0;
  // Tasks by request id, from head to answer.
  absl::flat_hash_map<uint64_t, std::shared_ptr<RequestTask>> tasks_;
  std::vector<std::shared_ptr<RequestTask>> idle_;
};

}  // namespace simurgh::rpc
