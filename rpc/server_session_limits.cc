// Limits that a server enforces on its clients.

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "rpc/server_session.h"

namespace simurgh::rpc {

void ServerSession::MakeRoom() {
  const ServerOptions& options = core_->options;
  const auto of_host = core_->admitted_by_host.find(host_);
  const bool host_is_full = of_host != core_->admitted_by_host.end() &&
                            of_host->second >= options.max_connections_per_host;
  if (!host_is_full && core_->admitted < options.max_connections) return;
  const auto oldest = std::ranges::find_if(core_->silent, [&](const ServerSession* session) {
    return !host_is_full || session->host_ == host_;
  });
  if (oldest == core_->silent.end()) return;
  (*oldest)->Close(WithCloseReason(
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
  const std::shared_ptr<Window>& heads = core_->large_heads;
  const uint64_t cost = heads->Cost(bytes);
  if (heads->TryEnter(cost)) co_return WindowShare(heads, cost);
  // Its incomplete requests may hold what it would wait for, and their rest comes after this head.
  if (arriving_ != 0) {
    co_return absl::UnavailableError("the server's memory for large requests is used up");
  }
  connection_->Uncork();
  core_->observer->OnThrottle(connection_->peer(), ThrottleReason::kHeads);
  if (co_await heads->Enter(cost, Clock::time_point::max(), this)) {
    co_return WindowShare(heads, cost);
  }
  co_return absl::UnavailableError("the connection ended");
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
