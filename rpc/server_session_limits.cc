// Limits that a server enforces on its clients.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/server_session.h"

namespace simurgh::rpc {

void ServerSession::MakeRoom() {
  const ServerOptions& options = core_->options;
  const auto of_host = core_->admitted_by_host.find(host_);
  const bool host_is_full = of_host != core_->admitted_by_host.end() &&
                            of_host->second >= options.max_connections_per_host;
  if (!host_is_full && core_->admitted < options.max_connections) return;
  const Clock::time_point replaceable = Clock::now() - options.replace_after;
  ServerSession* idlest = nullptr;
  for (ServerSession* session : core_->sessions) {
    if (!session->admitted_ || session->unanswered_.running() != 0) continue;
    if (host_is_full && session->host_ != host_) continue;
    if (session->has_called_ && session->idle_since_ > replaceable) continue;
    if (idlest == nullptr || session->idle_since_ < idlest->idle_since_) idlest = session;
  }
  if (idlest == nullptr) return;
  idlest->Close(WithCloseReason(
      absl::ResourceExhaustedError("no call, and a newer connection needs the place"),
      CloseReason::kCrowd));
}

Status ServerSession::Admit() {
  SIMURGH_RETURN_IF_ERROR(connection_->CheckRole(peer_.hello.role));
  for (const Status& fits : {CheckProtocol(peer_), CheckCluster(core_->hello, peer_.hello)}) {
    if (!fits.ok()) return WithCloseReason(fits, CloseReason::kRefused);
  }
  if (core_->draining) return absl::UnavailableError("the server is stopping");
  MakeRoom();
  const ServerOptions& options = core_->options;
  if (core_->admitted >= options.max_connections) {
    return WithCloseReason(absl::ResourceExhaustedError(
                               absl::StrCat("max_connections: the server has ", core_->admitted,
                                            ", the maximum is ", options.max_connections)),
                           CloseReason::kConnections);
  }
  const auto of_host = core_->admitted_by_host.find(host_);
  if (of_host != core_->admitted_by_host.end() &&
      of_host->second >= options.max_connections_per_host) {
    return WithCloseReason(
        absl::ResourceExhaustedError(
            absl::StrCat("max_connections_per_host: the server has ", of_host->second, " from ",
                         host_, ", the maximum is ", options.max_connections_per_host)),
        CloseReason::kHostConnections);
  }
  return absl::OkStatus();
}

Status ServerSession::CheckRequest(const IncomingFrame& frame) const {
  const uint64_t id = frame.header.request_id;
  if (tasks_.contains(id)) {
    return absl::DataLossError(absl::StrCat("malformed frame: request id ", id, " is in use"));
  }
  const uint64_t window = core_->options.max_request_bytes_per_connection;
  if (Cost(frame.bytes()) <= window - unanswered_bytes_) return absl::OkStatus();
  return WithCloseReason(absl::DataLossError(absl::StrCat(
                             "request of ", frame.bytes(), " bytes with ", unanswered_bytes_,
                             " bytes unanswered exceeds the window of ", window)),
                         CloseReason::kWindow);
}

awaitable<Status> ServerSession::AdmitLargeHead(IncomingFrame& request) {
  const FrameHeader& header = request.header;
  const uint64_t head = TableBytes(header) + header.metadata_length;
  if (header.kind != FrameKind::kRequest) {
    co_return absl::DataLossError(
        absl::StrCat("malformed frame: ", head, " bytes of metadata for this kind"));
  }
  const auto method = core_->methods.find(header.method);
  const uint64_t most = method == core_->methods.end() ? 0 : method->second.max_head_bytes;
  if (head > most) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "the request has ", head, " bytes of tables and metadata, the method accepts ", most));
  }
  // Includes the payload: a later wait for more could wait for other requests that also wait.
  const uint64_t bytes = kHeaderBytes + head + header.payload_length;
  if (TryTakeMemory(request, bytes)) co_return absl::OkStatus();
  co_return co_await AwaitMemory(request, bytes);
}

uint64_t ServerSession::AnswerCost(const FrameHeader& request) const {
  const auto method = core_->methods.find(request.method);
  if (method == core_->methods.end()) return 0;
  const uint64_t bytes = *method->second.largest_answer + kOverheadBytes;
  return bytes > kSmallAnswerBytes ? core_->answer_memory->Cost(bytes) : 0;
}

bool ServerSession::TryTakeMemory(IncomingFrame& request, uint64_t bytes) const {
  if (!request.share.empty()) return true;  // Taken before its large head was read.
  const auto take = [](const std::shared_ptr<WindowHolding>& memory, uint64_t cost,
                       WindowShare& share) {
    if (cost == 0 || !share.empty()) return true;
    if (!memory->window->TryEnter(cost)) return false;
    share = WindowShare(memory, cost);
    return true;
  };
  // The order is the same everywhere: a request that waits for memory of answers holds no memory of
  // requests.
  return take(answer_memory_, AnswerCost(request.header), request.answer_share) &&
         take(request_memory_, core_->request_memory->Cost(bytes + kOverheadBytes), request.share);
}

awaitable<Status> ServerSession::AwaitMemory(IncomingFrame& request, uint64_t bytes) {
  // Incomplete requests of this client may hold the memory, and their rest comes after this head.
  if (arriving_ != 0) {
    co_return absl::UnavailableError("the server's memory for requests and answers is used up");
  }
  connection_->Uncork();
  core_->observer->OnThrottle(connection_->peer(), ThrottleReason::kMemory);
  waiting_ = &request;
  if (const uint64_t cost = AnswerCost(request.header); cost != 0 && request.answer_share.empty()) {
    SIMURGH_CO_ASSIGN_OR_RETURN(request.answer_share,
                                co_await Await(&ServerSession::answer_memory_, cost));
  }
  const uint64_t cost = core_->request_memory->Cost(bytes + kOverheadBytes);
  SIMURGH_CO_ASSIGN_OR_RETURN(request.share, co_await Await(&ServerSession::request_memory_, cost));
  co_return absl::OkStatus();
}

awaitable<StatusOr<WindowShare>> ServerSession::Await(Memory memory, uint64_t cost) {
  SIMURGH_CO_RETURN_IF_ERROR(connection_->reason());  // Nothing would end the wait.
  const std::shared_ptr<WindowHolding>& holding = this->*memory;
  awaited_ = memory;
  turns_.reset();
  const bool entered = co_await holding->window->Enter(cost, Clock::time_point::max(), this);
  awaited_ = nullptr;
  if (entered) co_return WindowShare(holding, cost);
  co_return absl::UnavailableError("the connection ended");
}

uint64_t ServerSession::BytesOfClient(Memory memory) const {
  uint64_t bytes = (this->*memory)->bytes;
  if (memory == &ServerSession::request_memory_) return bytes;
  // Handlers end without the client, and a request that waits for more waits for others.
  for (const auto& [id, task] : tasks_) {
    if (task->running) bytes -= task->answer_share.cost();
  }
  return awaited_ == nullptr ? bytes : bytes - waiting_->answer_share.cost();
}

void ServerSession::CloseLargest(Memory memory) {
  const auto bytes = [&](const ServerSession* session) { return session->BytesOfClient(memory); };
  const auto largest = std::ranges::max_element(core_->sessions, {}, bytes);
  if (largest == core_->sessions.end() || bytes(*largest) == 0) return;
  (this->*memory)
      ->window->NoteTurn();  // No other connection is closed until a wait had time to succeed.
  (*largest)->Close(WithCloseReason(
      absl::ResourceExhaustedError("it takes most of the memory that other connections wait for"),
      CloseReason::kMemory));
}

std::optional<ThrottleReason> ServerSession::MustWait() const {
  const ServerOptions& options = core_->options;
  // Incomplete requests do not count: the bytes they need follow this frame.
  if (busy() != 0 && busy() >= options.max_requests_per_connection) {
    return ThrottleReason::kRequests;
  }
  if (connection_->outbox().bytes() > options.max_answer_bytes_per_connection) {
    return ThrottleReason::kAnswers;
  }
  return std::nullopt;
}

awaitable<Status> ServerSession::WaitForAnswers() {
  // Writing the corked answers may be enough.
  connection_->Uncork();
  std::optional<ThrottleReason> reason = MustWait();
  if (reason) core_->observer->OnThrottle(connection_->peer(), *reason);
  while (reason && connection_->open()) {
    if (*reason == ThrottleReason::kAnswers) {
      (void)co_await connection_->WaitForWrite();
    } else {
      const size_t fewer = unanswered_.running() - 1;
      co_await unanswered_.WaitUntilAtMost(fewer, Clock::time_point::max());
    }
    reason = MustWait();
  }
  co_return connection_->reason();
}

Clock::time_point ServerSession::CheckFlows(Clock::time_point now) {
  const ServerOptions& options = core_->options;
  if (awaited_ != nullptr) {
    const uint64_t turns = (this->*awaited_)->window->turns();
    if (std::exchange(turns_, turns) == turns) CloseLargest(awaited_);
  }
  if (!connection_->reason().ok()) return Clock::time_point::max();
  // The session does not read while it waits for answers, so it does not see the end.
  if (!connection_->waiting() && connection_->hung_up()) {
    Close(absl::UnavailableError("the peer closed the connection"));
    return Clock::time_point::max();
  }
  if (connection_->IsStalled(arriving_ != 0, arrivals_, now, options.stall_timeout)) {
    Close(WithCloseReason(absl::DeadlineExceededError("the client stopped within a message"),
                          CloseReason::kStalled));
    return Clock::time_point::max();
  }
  if (outgoing_.IsStalled(connection_->outgoing(), now, options.unread_timeout)) {
    Close(WithCloseReason(absl::DeadlineExceededError("the client does not read its answers"),
                          CloseReason::kNotReading));
    return Clock::time_point::max();
  }
  return FlowWatch::NextSample(now, std::min(options.stall_timeout, options.unread_timeout));
}

}  // namespace simurgh::rpc
