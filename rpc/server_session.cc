#include "rpc/server_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "rpc/async.h"
#include "rpc/connection.h"
#include "rpc/timers.h"
#include "rpc/token.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxIdleTasks = 64;

void End(RequestTask& task) {
  task.ended = true;
  task.request.Abandon();
}

// Returns the refusal for a client that has proved nothing.
Status Differ() {
  return absl::InvalidArgumentError(
      "configurations differ; the server's log names the settings. Start all daemons with the same "
      "file and --set overrides");
}

Trace TraceOf(const FrameHeader& header) {
  return {.trace_id = header.trace_id, .span_id = header.span_id};
}

}  // namespace

ServerSession::ServerSession(std::shared_ptr<ServerCore> core,
                             const std::shared_ptr<Stream>& stream, SharingHandshake sharing)
    : core_(std::move(core)),
      sharing_(std::move(sharing)),
      connection_(
          std::make_shared<Connection>(stream, stream->peer(), kHelloLimits, core_->observer)),
      host_(connection_->peer().substr(0, connection_->peer().rfind(':'))),
      unanswered_(core_->executor),
      request_memory_(std::make_shared<WindowHolding>(core_->request_memory)),
      answer_memory_(std::make_shared<WindowHolding>(core_->answer_memory)),
      deadlines_(core_->executor, [this](Clock::time_point now) { return ExpireRequests(now); }),
      flow_timer_(core_->executor, [this](Clock::time_point now) { return CheckFlows(now); }) {
  core_->newcomers.push_back(this);
  connection_->FindIncomingPayloadsBy([this](uint64_t id) -> IncomingPayload* {
    const auto found = tasks_.find(id);
    return found == tasks_.end() || found->second->running ? nullptr : &*found->second->payload;
  });
}

ServerSession::~ServerSession() {
  Leave();
  for (const auto& task : idle_) End(*task);
  for (const auto& [id, task] : tasks_) {
    if (!task->running) End(*task);
  }
}

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
  // Incomplete requests never complete.
  const absl::flat_hash_map<uint64_t, std::shared_ptr<RequestTask>> tasks = tasks_;
  for (const auto& [id, task] : tasks) {
    if (!task->running) Discard(task);
  }
}

awaitable<Status> ServerSession::ShakeHands() {
  const Watchdog watchdog(core_->executor, Clock::now() + core_->options.hello_timeout, [this] {
    connection_->Close(WithCloseReason(absl::DeadlineExceededError("no HELLO before the timeout"),
                                       CloseReason::kNoHello));
  });
  StatusOr<PeerHello> read = co_await ReadHello();
  if (CloseReasonOf(read.status()) == CloseReason::kRefused) {
    co_return co_await Refuse(read.status(), read.status());
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(peer_, std::move(read));
  hello_ = std::make_shared<const Hello>(peer_.hello);
  const StatusOr<uint64_t> features = AdmitAndShare();
  if (!features.ok()) {
    const bool is_known = core_->options.token != nullptr || connection_->is_trusted();
    const bool differs = CheckProtocol(peer_).ok() && !CheckCluster(core_->hello, *hello_).ok();
    co_return co_await Refuse(features.status(),
                              is_known || !differs ? features.status() : Differ());
  }
  core_->newcomers.remove(this);
  admitted_ = true;
  idle_since_ = Clock::now();
  ++core_->admitted;
  ++core_->admitted_by_host[host_];
  connection_->SetLimits(FrameLimits::Of(core_->options));
  connection_->AdmitLargeHeadsBy([this](IncomingFrame& request) { return AdmitLargeHead(request); },
                                 core_->options.stall_timeout);
  connection_->Establish(
      absl::StrCat(peer_.hello.role, "/", peer_.hello.index, " at ", connection_->peer()), peer_);
  OutgoingSegment hello = EncodeHello(core_->hello, FrameLimits::Of(core_->options),
                                      core_->options.max_request_bytes_per_connection, *features);
  connection_->Send({.header = {.kind = FrameKind::kHello}, .message = {std::move(hello)}});
  flow_timer_.Note(CheckFlows(Clock::now()));
  co_return absl::OkStatus();
}

awaitable<StatusOr<PeerHello>> ServerSession::ReadHello() {
  SIMURGH_CO_ASSIGN_OR_RETURN(IncomingFrame frame, co_await connection_->ReadFrame());
  const Token* const token = core_->options.token.get();
  Token::Nonce own{};
  Token::Nonce peer{};
  std::string claims;
  if (frame.header.kind == FrameKind::kProof) {
    if (token == nullptr) co_return TokenRefusal("the client has a token, the server has none");
    if (frame.metadata.size() != peer.size()) {
      co_return absl::DataLossError("malformed frame: a client's proof has 32 bytes");
    }
    std::ranges::copy(frame.metadata, peer.begin());
    own = Token::NewNonce();
    const OutgoingSegment introduction =
        EncodeHello({.role = core_->hello.role, .index = core_->hello.index}, FrameLimits());
    claims = Claims(core_->hello.cluster, introduction.bytes);
    const Token::Proof proof = token->Prove(Token::kServer, peer, own, claims);
    const auto answer = std::make_shared<std::vector<std::byte>>(own.begin(), own.end());
    answer->insert(answer->end(), proof.begin(), proof.end());
    answer->insert(answer->end(), introduction.bytes.begin(), introduction.bytes.end());
    connection_->Send({.header = {.kind = FrameKind::kProof},
                       .message = {.metadata = {.bytes = *answer, .owner = answer}}});
    SIMURGH_CO_ASSIGN_OR_RETURN(frame, co_await connection_->ReadFrame());
  } else if (token != nullptr && frame.header.kind == FrameKind::kHello) {
    co_return TokenRefusal("the server has a token, the client has none");
  }
  if (frame.header.kind != FrameKind::kHello) {
    co_return absl::DataLossError("malformed frame: the first frame is not a HELLO");
  }
  std::span<const std::byte> hello = frame.metadata;
  if (token != nullptr) {
    hello = hello.first(hello.size() - std::min(hello.size(), sizeof(Token::Proof)));
    const auto proof = std::span(frame.metadata).subspan(hello.size());
    if (!token->IsProof(proof, Token::kClient, own, peer, Claims(claims, hello))) {
      co_return TokenRefusal("the client has another token than the server");
    }
  }
  co_return DecodeHello(hello);
}

awaitable<Status> ServerSession::Refuse(Status reason, Status told) {
  connection_->Send(ErrorFrame(0, told));
  connection_->CloseAfterWrites(reason);
  connection_->Uncork();
  // Waits for writes only; the peer may have sent more.
  while (connection_->reason().ok() && co_await connection_->WaitForWrite()) continue;
  co_return reason;
}

StatusOr<uint64_t> ServerSession::AdmitAndShare() {
  SIMURGH_RETURN_IF_ERROR(Admit());
  uint64_t features = 0;
  if ((peer_.features & kFeatureSharedMemory) != 0) {
    features = sharing_.Offer(core_->executor, core_->options.shared_memory_bytes);
  }
  SIMURGH_ASSIGN_OR_RETURN(auto shared, sharing_.Agree(peer_.features));
  if (shared != nullptr) connection_->Share(std::move(shared));
  return features;
}

awaitable<Status> ServerSession::ReadFrames() {
  for (;;) {
    if (connection_->TurnIsOver()) co_await connection_->Yield();
    std::optional<StatusOr<IncomingFrame>> frame = connection_->TryReadFrame();
    if (!frame) frame = co_await connection_->ReadFrame();
    SIMURGH_CO_RETURN_IF_ERROR(frame->status());
    const FrameHeader header = (*frame)->header;
    const Clock::time_point arrival = Clock::now();  // Deadlines are relative to it.
    if (header.kind == FrameKind::kRequest) {
      if (MustWait()) SIMURGH_CO_RETURN_IF_ERROR(co_await WaitForAnswers());
      IncomingFrame& request = **frame;
      const uint64_t bytes = request.bytes();
      if (request.refusal.ok() && !TryTakeMemory(request, bytes)) {
        request.refusal = co_await AwaitMemory(request, bytes);
        SIMURGH_CO_RETURN_IF_ERROR(connection_->reason());
      }
    }
    SIMURGH_CO_ASSIGN_OR_RETURN(const std::shared_ptr<RequestTask> task,
                                OnFrame(*std::move(*frame), arrival));
    if (task == nullptr) {
      if (connection_->payload_left() != 0) {
        SIMURGH_CO_RETURN_IF_ERROR(co_await connection_->SkipPayload());
      }
      continue;
    }
    std::optional<Status> read = connection_->TryReadPayload(*task->payload);
    if (!read) read = co_await connection_->ReadPayload(*task->payload);
    SIMURGH_CO_RETURN_IF_ERROR(*read);
    if (task->payload->left() != 0) continue;
    if (header.kind == FrameKind::kChunk && MustWait()) {
      SIMURGH_CO_RETURN_IF_ERROR(co_await WaitForAnswers());
    }
    Start(task);
  }
}

StatusOr<std::shared_ptr<RequestTask>> ServerSession::OnFrame(IncomingFrame&& frame,
                                                              Clock::time_point arrival) {
  switch (frame.header.kind) {
    case FrameKind::kRequest:
      return OnRequest(std::move(frame), arrival);
    case FrameKind::kChunk: {
      const auto found = tasks_.find(frame.header.request_id);
      // Null for a refused request.
      if (found == tasks_.end()) return nullptr;
      if (!found->second->running) return found->second;
      return absl::DataLossError("malformed frame: a chunk of a complete request");
    }
    case FrameKind::kCancel:
      OnCancel(frame.header.request_id);
      return nullptr;
    case FrameKind::kPadding:
      return nullptr;
    default:
      return absl::DataLossError("malformed frame: a client must not send this kind");
  }
}

StatusOr<std::shared_ptr<RequestTask>> ServerSession::OnRequest(IncomingFrame&& frame,
                                                                Clock::time_point arrival) {
  const FrameHeader header = frame.header;
  SIMURGH_RETURN_IF_ERROR(CheckRequest(frame));
  const auto refuse = [&](const Status& error) {
    ReportUnstarted(header, frame.message_bytes(), error);
    SendAnswer(ErrorFrame(header.request_id, error), unanswered_.Enter());
    return nullptr;
  };
  if (core_->draining) return refuse(absl::UnavailableError("the server is stopping"));
  const auto method = core_->methods.find(header.method);
  if (method == core_->methods.end()) {
    return refuse(
        absl::UnimplementedError(absl::StrCat("the server has no method ", header.method)));
  }
  if (!frame.refusal.ok()) return refuse(frame.refusal);
  StatusOr<Placed> placed = PlaceSegments(method->second.placement, frame);
  if (!placed.ok()) return refuse(placed.status());

  has_called_ = true;
  const uint64_t bytes = frame.message_bytes();
  const uint64_t cost = Cost(frame.bytes());
  // Allocates, and may throw: before the task leaves the idle list.
  WindowShare answer_share = std::move(frame.answer_share);
  IncomingPayload payload(std::move(frame), std::move(placed->destinations));
  if (idle_.empty()) idle_.push_back(std::make_shared<RequestTask>());
  std::shared_ptr<RequestTask> task = std::move(idle_.back());
  idle_.pop_back();
  task->method = &method->second;
  task->id = header.request_id;
  task->trace = TraceOf(header);
  task->bytes = bytes;
  task->cost = cost;
  task->start = arrival;
  task->deadline = header.deadline_ms == 0
                       ? Clock::time_point::max()
                       : arrival + std::chrono::milliseconds(header.deadline_ms);
  task->payload.emplace(std::move(payload));
  task->context = std::move(placed->context);
  task->unanswered = unanswered_.Enter();
  task->answer_share = std::move(answer_share);
  ++arriving_;
  unanswered_bytes_ += task->cost;
  tasks_.emplace(task->id, task);
  return task;
}

void ServerSession::ReportUnstarted(const FrameHeader& header, uint64_t bytes,
                                    const Status& error) {
  const auto found = core_->methods.find(header.method);
  const MethodId method =
      found == core_->methods.end() ? MethodId{.name = "unknown"} : found->second.id;
  core_->observer->OnCallStart(method);
  core_->observer->OnCallEnd({.method = method,
                              .trace = TraceOf(header),
                              .status = error,
                              .end = Clock::now(),
                              .request_bytes = bytes});
}

void ServerSession::Discard(const std::shared_ptr<RequestTask>& task) {
  tasks_.erase(task->id);
  NoteArrived();
  unanswered_bytes_ -= task->cost;
  task->unanswered = {};
  task->answer_share = {};
  task->payload.reset();
  task->context.reset();
  if (idle_.size() < kMaxIdleTasks) return idle_.push_back(task);
  End(*task);
}

void ServerSession::Start(const std::shared_ptr<RequestTask>& task) {
  // A handler may wait for other requests, so it must not hold what they wait for.
  (void)task->payload->TakeShare();
  task->in_handler = core_->requests.Enter();
  task->running = true;
  task->handled = Clock::now();
  NoteArrived();
  task->session = shared_from_this();
  deadlines_.Note(task->deadline);
  core_->observer->OnCallStart(task->method->id);
  task->request.Resume();
  if (std::exchange(task->spawned, true)) return;
  SpawnCancellable(core_->executor, Serve(task), task->cancel,
                   [](const std::exception_ptr& /*none*/) {});
}

awaitable<void> ServerSession::Serve(std::shared_ptr<RequestTask> task) {
  while (!task->ended) {
    if (!task->request.over()) co_await task->request.Wait();
    if (task->ended) break;
    task->request.Reset();
    const std::shared_ptr<ServerSession> session = std::move(task->session);
    Request request{.message = task->payload->TakeMessage(),
                    .context = std::move(task->context),
                    .deadline = task->deadline,
                    .trace = task->trace,
                    .peer = session->hello_,
                    .sharing = session->connection_->sharing(),
                    .largest_answer = task->method->largest_answer.get()};
    task->payload.reset();
    StatusOr<OutgoingMessage> response;
    try {
      response = co_await task->method->handle(std::move(request));
    } catch (...) {
      response = Annotate(StatusOfException(std::current_exception()), task->method->id.name);
    }
    session->Answer(*task, std::move(response));
    // Resets the cancellation state for the next handler.
    co_await asio::this_coro::reset_cancellation_state(asio::enable_terminal_cancellation());
    co_await asio::this_coro::throw_if_cancelled(true);
    task->running = false;
    task->in_handler = {};
    task->ended = session->idle_.size() >= kMaxIdleTasks;
    if (!task->ended) session->idle_.push_back(task);
  }
}

void ServerSession::Answer(RequestTask& task, StatusOr<OutgoingMessage> response) {
  const Clock::time_point now = Clock::now();
  if (absl::IsCancelled(response.status()) && task.deadline <= now) {
    response = absl::DeadlineExceededError("the handler was cancelled at the deadline");
  }
  if (response.ok()) {
    const Status fits = CheckFits(*response, peer_.limits);
    if (!fits.ok()) response = absl::InternalError(absl::StrCat("response: ", fits.message()));
  }
  core_->observer->OnCallEnd({.method = task.method->id,
                              .trace = task.trace,
                              .status = response.status(),
                              .duration = now - task.start,
                              .end = now,
                              .waited = task.handled - task.start,
                              .request_bytes = task.bytes,
                              .response_bytes = response.ok() ? BytesOf(*response) : 0});
  OutgoingFrame frame =
      response.ok() ? OutgoingFrame{.header = {.kind = FrameKind::kResponse, .request_id = task.id},
                                    .message = *std::move(response)}
                    : ErrorFrame(task.id, response.status());
  Raise(*task.method->largest_answer, BytesOf(frame.message));
  SendAnswer(std::move(frame), std::move(task.unanswered), std::move(task.answer_share));
  unanswered_bytes_ -= task.cost;
  tasks_.erase(task.id);
}

void ServerSession::SendAnswer(OutgoingFrame&& frame, Gate::Pass unanswered, WindowShare share) {
  idle_since_ = Clock::now();
  frame.pass = std::move(unanswered);
  const uint64_t bytes = FrameBytes(frame.message) + kOverheadBytes;
  // The share is too small if no answer has been larger.
  if (share.cost() < bytes) {
    share = {};
    const auto& memory = bytes > kSmallAnswerBytes ? answer_memory_ : request_memory_;
    memory->window->Take(bytes);
    share = WindowShare(memory, bytes);
  }
  frame.share = std::move(share);
  connection_->Send(std::move(frame));
}

void ServerSession::OnCancel(uint64_t request_id) {
  const auto found = tasks_.find(request_id);
  if (found == tasks_.end()) return;  // Answered already.
  const std::shared_ptr<RequestTask> task = found->second;
  if (task->running) return task->cancel.emit(asio::cancellation_type::terminal);
  const Status error = absl::CancelledError("cancelled before the request was complete");
  ReportUnstarted(task->payload->header(), task->bytes, error);
  Gate::Pass unanswered = std::move(task->unanswered);
  Discard(task);
  SendAnswer(ErrorFrame(request_id, error), std::move(unanswered));
}

Clock::time_point ServerSession::ExpireRequests(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  std::vector<uint64_t> expired;
  for (const auto& [id, task] : tasks_) {
    if (!task->running) continue;  // Its client sends CANCEL.
    if (task->deadline <= now) {
      expired.push_back(id);
    } else {
      next = std::min(next, task->deadline);
    }
  }
  for (const uint64_t id : expired) OnCancel(id);
  return next;
}

void ServerSession::Close(const Status& reason) {
  Leave();
  connection_->Close(reason);
  core_->request_memory->Withdraw(this);
  core_->answer_memory->Withdraw(this);
  const absl::flat_hash_map<uint64_t, std::shared_ptr<RequestTask>> tasks = tasks_;
  for (const auto& [id, task] : tasks) {
    if (task->running) task->cancel.emit(asio::cancellation_type::terminal);
  }
}

void ServerSession::Leave() {
  core_->newcomers.remove(this);
  core_->sessions.erase(this);
  if (!std::exchange(admitted_, false)) return;
  --core_->admitted;
  const auto host = core_->admitted_by_host.find(host_);
  if (--host->second == 0) core_->admitted_by_host.erase(host);
}

}  // namespace simurgh::rpc
