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

awaitable<StatusOr<WindowShare>> ServerSession::AdmitLargeHead(FrameHeader header) {
  const uint64_t bytes = TableBytes(header) + header.metadata_length;
  if (header.kind != FrameKind::kRequest) {
    co_return absl::DataLossError(
        absl::StrCat("malformed frame: ", bytes, " bytes of metadata for this kind"));
  }
  const auto method = core_->methods.find(header.method);
  const uint64_t most = method == core_->methods.end() ? 0 : method->second.max_head_bytes;
  if (bytes > most) {
    co_return absl::InvalidArgumentError(absl::StrCat(
        "the request has ", bytes, " bytes of tables and metadata, the method accepts ", most));
  }
  // Also for the payload: to wait for more later could wait for other requests that do so, too.
  large_head_bytes_ = kHeaderBytes + bytes + header.payload_length;
  const std::shared_ptr<Window> memory = core_->request_memory;
  const uint64_t cost = memory->Cost(large_head_bytes_ + kOverheadBytes);
  if (memory->TryEnter(cost)) co_return WindowShare(memory, cost);
  co_return co_await Await(memory, cost);
}

uint64_t ServerSession::AnswerCost(const FrameHeader& request) const {
  const auto method = core_->methods.find(request.method);
  if (method == core_->methods.end()) return 0;
  const uint64_t bytes = *method->second.largest_answer + kOverheadBytes;
  return bytes > kSmallAnswerBytes ? core_->answer_memory->Cost(bytes) : 0;
}

namespace {
// Ends a connection that would wait for memory which its own requests hold.
constexpr std::chrono::seconds kMemoryPatience{2};
}  // namespace

bool ServerSession::TryTakeMemory(IncomingFrame& request) const {
  const auto take = [](const std::shared_ptr<Window>& memory, uint64_t cost, WindowShare& share) {
    if (cost == 0 || !share.empty()) return true;
    if (!memory->TryEnter(cost)) return false;
    share = WindowShare(memory, cost);
    return true;
  };
  // A request that waits for an answer's memory holds none that other requests need.
  return take(core_->answer_memory, AnswerCost(request.header), request.answer_share) &&
         take(core_->request_memory, core_->request_memory->Cost(request.bytes() + kOverheadBytes),
              request.share);
}

awaitable<Status> ServerSession::AwaitMemory(IncomingFrame& request) {
  const uint64_t answer = AnswerCost(request.header);
  if (answer != 0 && request.answer_share.empty()) {
    SIMURGH_CO_ASSIGN_OR_RETURN(request.answer_share, co_await Await(core_->answer_memory, answer));
  }
  if (!TryTakeMemory(request)) {
    const uint64_t cost = core_->request_memory->Cost(request.bytes() + kOverheadBytes);
    SIMURGH_CO_ASSIGN_OR_RETURN(request.share, co_await Await(core_->request_memory, cost));
  }
  co_return absl::OkStatus();
}

awaitable<StatusOr<WindowShare>> ServerSession::Await(std::shared_ptr<Window> memory,
                                                      uint64_t cost) {
  // Its incomplete requests may hold what it would wait for, and their rest comes after this head.
  if (arriving_ != 0) {
    co_return absl::UnavailableError("the server's memory for requests and answers is used up");
  }
  connection_->Uncork();
  core_->observer->OnThrottle(connection_->peer(), ThrottleReason::kMemory);
  awaited_ = memory;
  leaves_ = memory->leaves();
  const bool entered = co_await memory->Enter(cost, Clock::now() + kMemoryPatience, this);
  awaited_ = nullptr;
  if (entered) co_return WindowShare(memory, cost);
  co_return absl::UnavailableError("the connection ended, or waited too long for memory");
}

uint64_t ServerSession::HeldBytes() const {
  uint64_t bytes = large_head_bytes_ + connection_->outbox().bytes();
  for (const auto& [id, task] : tasks_) {
    bytes += task->answer_share.cost() + (task->payload ? task->payload->share_bytes() : 0);
  }
  return bytes;
}

void ServerSession::CloseLargest() {
  const auto largest = std::ranges::max_element(core_->sessions, {}, &ServerSession::HeldBytes);
  if (largest == core_->sessions.end() || (*largest)->HeldBytes() == 0) return;
  awaited_->Leave(0);  // Its bytes leave later; until then no other connection is closed.
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
  if (awaited_ != nullptr && std::exchange(leaves_, awaited_->leaves()) == awaited_->leaves()) {
    CloseLargest();
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
