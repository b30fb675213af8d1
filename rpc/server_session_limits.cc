// What a server's peer may not do, and what becomes of one that does.

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "rpc/server_session.h"

namespace simurgh::rpc {

Status ServerSession::Admit(const PeerHello& peer) const {
  const Status fits = CheckHello(core_->hello, peer);
  if (!fits.ok()) return WithCloseReason(fits, CloseReason::kRefused);
  if (core_->draining) return absl::UnavailableError("the server is stopping");
  const ServerOptions& options = core_->options;
  if (core_->admitted >= options.max_connections) {
    return WithCloseReason(
        absl::ResourceExhaustedError(absl::StrCat("the server has its max_connections of ",
                                                  options.max_connections, " already")),
        CloseReason::kConnections);
  }
  const auto of_host = core_->admitted_by_host.find(host_);
  if (of_host != core_->admitted_by_host.end() &&
      of_host->second >= options.max_connections_per_host) {
    return WithCloseReason(absl::ResourceExhaustedError(absl::StrCat(
                               "the server has its max_connections_per_host of ",
                               options.max_connections_per_host, " from ", host_, " already")),
                           CloseReason::kHostConnections);
  }
  return absl::OkStatus();
}

Status ServerSession::CheckRequest(const IncomingFrame& frame) const {
  const uint64_t id = frame.header.request_id;
  if (tasks_.contains(id)) {
    return absl::DataLossError(
        absl::StrCat("malformed frame: request ", id, " is running already"));
  }
  const uint64_t window = core_->options.max_request_bytes_per_connection;
  if (Cost(frame.bytes()) <= window - unanswered_bytes_) return absl::OkStatus();
  return WithCloseReason(
      absl::DataLossError(absl::StrCat("the peer has ", unanswered_bytes_,
                                       " bytes of requests unanswered and sends ", frame.bytes(),
                                       " more; its window is ", window)),
      CloseReason::kWindow);
}

uint64_t ServerSession::Cost(uint64_t frame_bytes) const {
  return std::min(frame_bytes, core_->options.max_request_bytes_per_connection);
}

std::optional<ThrottleReason> ServerSession::MustWait() const {
  const ServerOptions& options = core_->options;
  // Those that arrive in chunks do not count: what they wait for lies behind this frame.
  if (busy() != 0 && busy() >= options.max_requests_per_connection) {
    return ThrottleReason::kRequests;
  }
  if (connection_->outbox().bytes() > options.max_answer_bytes_per_connection) {
    return ThrottleReason::kAnswers;
  }
  return std::nullopt;
}

awaitable<Status> ServerSession::WaitForAnswers() {
  // What has been answered leaves first, which may be enough.
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
  // While a wait for answers keeps it from being read.
  if (!connection_->waiting() && connection_->hung_up()) {
    Close(absl::UnavailableError("the peer closed the connection"));
    return Clock::time_point::max();
  }
  const Flow frames = connection_->incoming();
  const Flow chunks{.expected = arriving_ != 0 && connection_->waiting(),
                    .rounds = arrivals_,
                    .bytes = frames.bytes};
  const bool in_frame = frames_.StandsStill(frames, now, options.stall_timeout);
  const bool in_chunks = chunks_.StandsStill(chunks, now, options.stall_timeout);
  if (in_frame || in_chunks) {
    Close(
        WithCloseReason(absl::DeadlineExceededError("the peer stopped in the middle of a message"),
                        CloseReason::kStalled));
    return Clock::time_point::max();
  }
  if (outgoing_.StandsStill(connection_->outgoing(), now, options.unread_timeout)) {
    Close(WithCloseReason(absl::DeadlineExceededError("the peer does not read its answers"),
                          CloseReason::kNotReading));
    return Clock::time_point::max();
  }
  return FlowWatch::NextLook(now, std::min(options.stall_timeout, options.unread_timeout));
}

}  // namespace simurgh::rpc
