#include "rpc/server_session.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "rpc/error.h"
#include "rpc/exchange.h"
#include "rpc/socket_stream.h"
#include "rpc/spawn.h"

namespace simurgh::rpc {
namespace {

constexpr std::chrono::seconds kHandshakeTimeout{5};

// Calls the handler, whatever it throws.
awaitable<StatusOr<OutgoingMessage>> CallHandler(const Method& method, Request request) {
  std::exception_ptr thrown;
  try {
    co_return co_await method.handle(std::move(request));
  } catch (...) {
    thrown = std::current_exception();
  }
  co_return Annotate(StatusOfException(thrown), method.name);
}

}  // namespace

// A request in the hands of its handler.
struct ServerSession::Running {
  Running(const Method& of, uint64_t number, Gate::Pass handler, Gate::Pass answer)
      : method(of), id(number), in_handler(std::move(handler)), unanswered(std::move(answer)) {}

  const Method& method;
  const uint64_t id;
  Gate::Pass in_handler;
  Gate::Pass unanswered;  // Goes with the answer.
  const Clock::time_point start = Clock::now();
  asio::cancellation_signal cancel;
  std::optional<Watchdog> deadline;
};

ServerSession::ServerSession(std::shared_ptr<ServerCore> core, Socket socket,
                             const std::string& peer)
    : core_(std::move(core)),
      connection_(std::make_shared<Connection>(std::make_unique<SocketStream>(std::move(socket)),
                                               peer, kHelloLimits, core_->observer)),
      unanswered_(core_->executor) {}

ServerSession::~ServerSession() { Leave(); }

awaitable<void> ServerSession::Run() {
  const std::shared_ptr<ServerSession> self = shared_from_this();
  const Gate::Pass connected = core_->connections.Enter();
  core_->sessions.insert(this);
  Status end;
  try {
    end = co_await ShakeHands();
    if (end.ok()) end = co_await ReadFrames();
  } catch (...) {
    end = StatusOfException(std::current_exception());
  }
  Close(end);
}

awaitable<Status> ServerSession::ShakeHands() {
  const Gate::Pass pass = core_->handshakes.Enter();
  const Watchdog watchdog(core_->executor, Clock::now() + kHandshakeTimeout, [this] {
    connection_->Close(absl::DeadlineExceededError("the peer sent no HELLO in time"));
  });
  SIMURGH_CO_ASSIGN_OR_RETURN(const IncomingFrame frame, co_await connection_->ReadFrame());
  if (frame.header.kind != FrameKind::kHello) {
    co_return absl::DataLossError("malformed frame: the first one is not a HELLO");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(peer_, DecodeHello(frame.metadata));
  const Status admitted = Admit(peer_);
  if (!admitted.ok()) {
    core_->observer->OnProtocolError(connection_->peer(), admitted);
    connection_->Send(ErrorFrame(0, admitted, kFlagNotExecuted));
    connection_->CloseAfterWrites(admitted);
    (void)co_await connection_->ReadFrame();  // Ends when the connection does.
    co_return admitted;
  }
  admitted_ = true;
  ++core_->admitted;
  connection_->SetLimits({.max_frame_bytes = core_->options.max_frame_bytes});
  connection_->Establish(
      absl::StrCat(peer_.hello.role, "/", peer_.hello.index, " at ", connection_->peer()));
  OutgoingFrame hello;
  hello.header.kind = FrameKind::kHello;
  hello.message.metadata = EncodeHello(core_->hello, core_->options.max_frame_bytes);
  connection_->Send(std::move(hello));
  co_return absl::OkStatus();
}

Status ServerSession::Admit(const PeerHello& peer) const {
  SIMURGH_RETURN_IF_ERROR(CheckHello(core_->hello, peer));
  if (core_->draining) return absl::UnavailableError("the server is stopping");
  if (core_->admitted < core_->options.max_connections) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the server has its max_connections of ",
                                                   core_->options.max_connections, " already"));
}

awaitable<Status> ServerSession::ReadFrames() {
  for (;;) {
    SIMURGH_CO_ASSIGN_OR_RETURN(IncomingFrame frame, co_await connection_->ReadFrame());
    switch (frame.header.kind) {
      case FrameKind::kRequest:
        SIMURGH_CO_RETURN_IF_ERROR(co_await OnRequest(std::move(frame)));
        break;
      case FrameKind::kCancel:
        OnCancel(frame.header.request_id);
        break;
      default:
        co_return absl::DataLossError("malformed frame: a kind that clients do not send");
    }
  }
}

awaitable<Status> ServerSession::OnRequest(IncomingFrame frame) {
  const Clock::time_point arrival = Clock::now();
  const FrameHeader& header = frame.header;
  if (running_.contains(header.request_id)) {
    co_return absl::DataLossError(
        absl::StrCat("malformed frame: request ", header.request_id, " is running already"));
  }
  if (core_->draining) {
    co_return co_await Refuse(frame, absl::UnavailableError("the server is stopping"));
  }
  const auto found = core_->methods.find(header.method);
  if (found == core_->methods.end()) {
    co_return co_await Refuse(
        frame, absl::UnimplementedError(absl::StrCat("no method ", header.method, " here")));
  }
  const uint32_t others = core_->options.max_requests_per_connection - 1;
  co_await unanswered_.WaitUntilAtMost(others, Clock::time_point::max());
  StatusOr<std::vector<IncomingSegment>> places = Place(found->second.placement, frame);
  if (!places.ok()) co_return co_await Refuse(frame, places.status());
  SIMURGH_CO_RETURN_IF_ERROR(co_await connection_->ReadPayload(*places));

  Request request{.message = {std::move(frame.metadata), *std::move(places)},
                  .deadline = Clock::time_point::max(),
                  .peer = peer_.hello};
  if (header.deadline_ms != 0) {
    request.deadline = arrival + std::chrono::milliseconds(header.deadline_ms);
  }
  Start(found->second, header.request_id, std::move(request));
  co_return absl::OkStatus();
}

awaitable<Status> ServerSession::Refuse(const IncomingFrame& frame, const Status& error) {
  connection_->Send(AnswerWith(frame.header.request_id, error, kFlagNotExecuted));
  co_return co_await connection_->SkipPayload();
}

void ServerSession::Start(const Method& method, uint64_t request_id, Request request) {
  const auto running =
      std::make_shared<Running>(method, request_id, core_->requests.Enter(), unanswered_.Enter());
  running->deadline.emplace(core_->executor, request.deadline,
                            [this, request_id] { OnCancel(request_id); });
  running_.emplace(request_id, running);
  auto end = [self = shared_from_this(), running](const std::exception_ptr& /*none*/) {};
  SpawnCancellable(core_->executor, Handle(running, std::move(request)), running->cancel,
                   std::move(end));
}

awaitable<void> ServerSession::Handle(std::shared_ptr<Running> running, Request request) {
  StatusOr<OutgoingMessage> response = co_await CallHandler(running->method, std::move(request));
  Answer(*running, std::move(response));
}

void ServerSession::Answer(Running& running, StatusOr<OutgoingMessage> response) {
  if (absl::IsCancelled(response.status()) && running.deadline->expired()) {
    response = absl::DeadlineExceededError("cancelled at its deadline");
  }
  if (response.ok()) {
    const Status fits = CheckFits(*response, peer_.max_frame_bytes);
    if (!fits.ok()) response = absl::InternalError(absl::StrCat("response: ", fits.message()));
  }
  core_->observer->OnCallEnd(running.method.name, response.status().code(),
                             Clock::now() - running.start);
  OutgoingFrame frame;
  if (response.ok()) {
    frame.header.kind = FrameKind::kResponse;
    frame.header.request_id = running.id;
    frame.message = *std::move(response);
  } else {
    frame = AnswerWith(running.id, response.status(), 0);
  }
  frame.pass = std::move(running.unanswered);
  connection_->Send(std::move(frame));
  running_.erase(running.id);
}

OutgoingFrame ServerSession::AnswerWith(uint64_t request_id, const Status& error,
                                        uint16_t flags) const {
  OutgoingFrame frame = ErrorFrame(request_id, error, flags);
  if (CheckFits(frame.message, peer_.max_frame_bytes).ok()) return frame;
  // Without its payloads an error is smaller than what any peer must accept.
  const Status bare = WithDetail(Status(error.code(), error.message()), DetailOf(error));
  return ErrorFrame(request_id, bare, flags);
}

void ServerSession::OnCancel(uint64_t request_id) {
  const auto found = running_.find(request_id);
  if (found == running_.end()) return;  // Answered meanwhile.
  const std::shared_ptr<Running> running = found->second;
  running->cancel.emit(asio::cancellation_type::terminal);
}

void ServerSession::SayGoaway() {
  if (!admitted_) return;  // Will be refused when it introduces itself.
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kGoaway;
  connection_->Send(std::move(frame));
}

awaitable<bool> ServerSession::Answered(Clock::time_point deadline) {
  return unanswered_.WaitUntilAtMost(0, deadline);
}

void ServerSession::Close(const Status& reason) {
  Leave();
  connection_->Close(reason);
  for (const auto& [id, running] : std::unordered_map(running_)) {
    running->cancel.emit(asio::cancellation_type::terminal);
  }
}

void ServerSession::Leave() {
  core_->sessions.erase(this);
  if (std::exchange(admitted_, false)) --core_->admitted;
}

}  // namespace simurgh::rpc
