#include "rpc/server_session.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "rpc/error.h"
#include "rpc/exchange.h"
#include "rpc/spawn.h"

namespace simurgh::rpc {
namespace {

constexpr std::chrono::seconds kHandshakeTimeout{5};

std::shared_ptr<Connection> NewConnection(std::unique_ptr<Stream> stream,
                                          const ObserverLink& observer) {
  std::string peer = stream->peer();
  return std::make_shared<Connection>(std::move(stream), std::move(peer), kHelloLimits, observer);
}

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

// A request whose payload is on its way.
struct ServerSession::Arrival {
  const Method& method;
  Landing landing;
  uint64_t cost = 0;  // Of the window.
  Gate::Pass unanswered;
  const Clock::time_point time = Clock::now();

  Clock::time_point deadline() const {
    const uint32_t left_ms = landing.header().deadline_ms;
    if (left_ms == 0) return Clock::time_point::max();
    return time + std::chrono::milliseconds(left_ms);
  }
};

// A request in the hands of its handler.
struct ServerSession::Running {
  Running(Arrival& arrival, Gate::Pass handler)
      : method(arrival.method),
        id(arrival.landing.header().request_id),
        cost(arrival.cost),
        deadline(arrival.deadline()),
        in_handler(std::move(handler)),
        unanswered(std::move(arrival.unanswered)) {}

  const Method& method;
  const uint64_t id;
  const uint64_t cost;
  const Clock::time_point deadline;
  Gate::Pass in_handler;
  Gate::Pass unanswered;  // Goes with the answer.
  const Clock::time_point start = Clock::now();
  asio::cancellation_signal cancel;
};

ServerSession::ServerSession(std::shared_ptr<ServerCore> core, std::unique_ptr<Stream> stream)
    : core_(std::move(core)),
      connection_(NewConnection(std::move(stream), core_->observer)),
      unanswered_(core_->executor),
      deadlines_(core_->executor, [this](Clock::time_point now) { return ExpireRequests(now); }) {}

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
    connection_->Close(WithCutReason(absl::DeadlineExceededError("the peer sent no HELLO in time"),
                                     CutReason::kNoHello));
  });
  SIMURGH_CO_ASSIGN_OR_RETURN(const IncomingFrame frame, co_await connection_->ReadFrame());
  if (frame.header.kind != FrameKind::kHello) {
    co_return absl::DataLossError("malformed frame: the first one is not a HELLO");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(peer_, DecodeHello(frame.metadata));
  const Status admitted = Admit(peer_);
  if (!admitted.ok()) {
    connection_->Send(ErrorFrame(0, admitted, kFlagNotExecuted));
    connection_->CloseAfterWrites(admitted);
    (void)co_await connection_->ReadFrame();  // Ends when the connection does.
    co_return admitted;
  }
  admitted_ = true;
  ++core_->admitted;
  connection_->SetLimits({.max_frame_bytes = core_->options.max_frame_bytes});
  connection_->Establish(
      absl::StrCat(peer_.hello.role, "/", peer_.hello.index, " at ", connection_->peer()),
      peer_.protocol());
  OutgoingFrame hello;
  hello.header.kind = FrameKind::kHello;
  hello.message.metadata = EncodeHello(core_->hello, core_->options.max_frame_bytes,
                                       core_->options.max_request_bytes_per_connection);
  connection_->Send(std::move(hello));
  co_return absl::OkStatus();
}

Status ServerSession::Admit(const PeerHello& peer) const {
  const Status fits = CheckHello(core_->hello, peer);
  if (!fits.ok()) return WithCutReason(fits, CutReason::kRefused);
  if (core_->draining) return absl::UnavailableError("the server is stopping");
  if (core_->admitted < core_->options.max_connections) return absl::OkStatus();
  return WithCutReason(
      absl::ResourceExhaustedError(absl::StrCat("the server has its max_connections of ",
                                                core_->options.max_connections, " already")),
      CutReason::kConnections);
}

awaitable<Status> ServerSession::ReadFrames() {
  for (;;) {
    SIMURGH_CO_ASSIGN_OR_RETURN(IncomingFrame frame, co_await connection_->ReadFrame());
    switch (frame.header.kind) {
      case FrameKind::kRequest:
        SIMURGH_CO_RETURN_IF_ERROR(co_await OnRequest(std::move(frame)));
        break;
      case FrameKind::kChunk:
        SIMURGH_CO_RETURN_IF_ERROR(co_await OnChunk(frame.header.request_id));
        break;
      case FrameKind::kCancel:
        OnCancel(frame.header.request_id);
        break;
      default:
        co_return absl::DataLossError("malformed frame: a kind that clients do not send");
    }
  }
}

Status ServerSession::CheckRequest(const FrameHeader& header) const {
  const uint64_t id = header.request_id;
  if (running_.contains(id) || arrivals_.contains(id)) {
    return absl::DataLossError(
        absl::StrCat("malformed frame: request ", id, " is running already"));
  }
  const uint64_t window = core_->options.max_request_bytes_per_connection;
  if (peer_.protocol() < kProtocolWithChunks) return absl::OkStatus();
  if (Cost(header) <= window - unanswered_bytes_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the peer has ", unanswered_bytes_,
                                          " bytes of requests unanswered and sends ",
                                          FrameBytes(header), " more; its window is ", window));
}

StatusOr<const Method*> ServerSession::MethodOf(const FrameHeader& header) const {
  if (core_->draining) return absl::UnavailableError("the server is stopping");
  const auto found = core_->methods.find(header.method);
  if (found != core_->methods.end()) return &found->second;
  return absl::UnimplementedError(absl::StrCat("no method ", header.method, " here"));
}

uint64_t ServerSession::Cost(const FrameHeader& header) const {
  return std::min(FrameBytes(header), core_->options.max_request_bytes_per_connection);
}

awaitable<Status> ServerSession::OnRequest(IncomingFrame frame) {
  SIMURGH_CO_RETURN_IF_ERROR(CheckRequest(frame.header));
  const StatusOr<const Method*> method = MethodOf(frame.header);
  if (!method.ok()) co_return co_await Refuse(frame, method.status());
  const uint32_t others = core_->options.max_requests_per_connection - 1;
  if (unanswered_.running() > others) {
    connection_->Uncork();
    co_await unanswered_.WaitUntilAtMost(others, Clock::time_point::max());
  }
  StatusOr<std::vector<IncomingSegment>> places = Place((*method)->placement, frame);
  if (!places.ok()) co_return co_await Refuse(frame, places.status());

  auto arrival =
      std::make_unique<Arrival>(Arrival{.method = **method,
                                        .landing = {std::move(frame), *std::move(places)},
                                        .unanswered = unanswered_.Enter()});
  const FrameHeader& header = arrival->landing.header();
  arrival->cost = Cost(header);
  unanswered_bytes_ += arrival->cost;
  if (header.chunked()) {
    arrivals_.emplace(header.request_id, std::move(arrival));
    co_return absl::OkStatus();
  }
  SIMURGH_CO_RETURN_IF_ERROR(co_await connection_->ReadPayload(arrival->landing));
  Start(std::move(arrival));
  co_return absl::OkStatus();
}

awaitable<Status> ServerSession::OnChunk(uint64_t request_id) {
  const auto found = arrivals_.find(request_id);
  // Of a request that was refused.
  if (found == arrivals_.end()) co_return co_await connection_->SkipPayload();
  Landing& landing = found->second->landing;
  SIMURGH_CO_RETURN_IF_ERROR(co_await connection_->ReadPayload(landing));
  if (landing.left() != 0) co_return absl::OkStatus();
  std::unique_ptr<Arrival> arrival = std::move(found->second);
  arrivals_.erase(found);
  Start(std::move(arrival));
  co_return absl::OkStatus();
}

awaitable<Status> ServerSession::Refuse(const IncomingFrame& frame, const Status& error) {
  connection_->Send(AnswerWith(frame.header.request_id, error, kFlagNotExecuted));
  co_return co_await connection_->SkipPayload();
}

void ServerSession::Start(std::unique_ptr<Arrival> arrival) {
  const auto running = std::make_shared<Running>(*arrival, core_->requests.Enter());
  const uint64_t id = running->id;
  Request request{.message = arrival->landing.TakeMessage(),
                  .deadline = running->deadline,
                  .peer = peer_.hello};
  running_.emplace(id, running);
  deadlines_.Note(running->deadline);
  auto end = [self = shared_from_this(), running](const std::exception_ptr& /*none*/) {};
  SpawnCancellable(core_->executor, Handle(running, std::move(request)), running->cancel,
                   std::move(end));
}

awaitable<void> ServerSession::Handle(std::shared_ptr<Running> running, Request request) {
  StatusOr<OutgoingMessage> response = co_await CallHandler(running->method, std::move(request));
  Answer(*running, std::move(response));
}

void ServerSession::Answer(Running& running, StatusOr<OutgoingMessage> response) {
  if (absl::IsCancelled(response.status()) && running.deadline <= Clock::now()) {
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
  unanswered_bytes_ -= running.cost;
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
  if (const auto arriving = arrivals_.extract(request_id)) {
    unanswered_bytes_ -= arriving.mapped()->cost;
    connection_->Send(AnswerWith(
        request_id, absl::CancelledError("cancelled while it was arriving"), kFlagNotExecuted));
    return;
  }
  const auto found = running_.find(request_id);
  if (found == running_.end()) return;  // Answered meanwhile.
  const std::shared_ptr<Running> running = found->second;
  running->cancel.emit(asio::cancellation_type::terminal);
}

Clock::time_point ServerSession::ExpireRequests(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  std::vector<uint64_t> expired;
  for (const auto& [id, running] : running_) {
    if (running->deadline <= now) {
      expired.push_back(id);
    } else {
      next = std::min(next, running->deadline);
    }
  }
  for (const uint64_t id : expired) OnCancel(id);
  return next;
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
