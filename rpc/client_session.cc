#include "rpc/client_session.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "rpc/connection.h"
#include "rpc/stream.h"
#include "rpc/timers.h"
#include "rpc/tls.h"
#include "rpc/token.h"
#include "rpc/transport.h"

namespace simurgh::rpc {
namespace {

// The time left in the header's unit: 0 for no deadline, else at least 1.
uint32_t RemainingMs(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(left, 1, 0xffff'ffff));
}

bool HasBytesWithoutOwner(const OutgoingMessage& message) {
  const auto unowned = [](const OutgoingSegment& segment) {
    return segment.owner == nullptr && !segment.bytes.empty();
  };
  return unowned(message.metadata) || std::ranges::any_of(message.segments, unowned);
}

Status AbandonedHalfWritten() {
  return absl::UnavailableError("a call ended while its request was being written");
}

// A frame before the server's first answer to a call.
// Errors: also the server's ERROR.
awaitable<StatusOr<IncomingFrame>> ReadOpening(Connection& connection) {
  SIMURGH_CO_ASSIGN_OR_RETURN(IncomingFrame frame, co_await connection.ReadFrame());
  if (frame.header.kind != FrameKind::kError) co_return std::move(frame);
  Status error;
  SIMURGH_CO_RETURN_IF_ERROR(DecodeError(frame.header, frame.metadata, error));
  co_return Annotate(error, "refused by the server");
}

// The inputs of this end's proof of the token.
struct Opening {
  Token::Nonce own{};
  Token::Nonce server{};
  std::string claims;  // The server's.
};

// Checks the server's proof of the token, its role and its index.
awaitable<StatusOr<Opening>> ExchangeProofs(Connection& connection, const std::string& cluster,
                                            const ClientOptions& options) {
  Opening opening{.own = Token::NewNonce()};
  connection.Send(
      {.header = {.kind = FrameKind::kProof}, .message = {.metadata = {.bytes = opening.own}}});
  SIMURGH_CO_ASSIGN_OR_RETURN(const IncomingFrame frame, co_await ReadOpening(connection));
  if (frame.header.kind != FrameKind::kProof) {
    co_return TokenRefusal("this end has a token, the server has none");
  }
  constexpr size_t kNonce = sizeof(Token::Nonce);
  constexpr size_t kProof = sizeof(Token::Proof);
  const std::span<const std::byte> metadata = frame.metadata;
  if (metadata.size() < kNonce + kProof) {
    co_return absl::DataLossError("malformed frame: a server's proof has at least 64 bytes");
  }
  std::ranges::copy(metadata.first(kNonce), opening.server.begin());
  opening.claims = Claims(cluster, metadata.subspan(kNonce + kProof));
  if (!options.token->IsProof(metadata.subspan(kNonce, kProof), Token::kServer, opening.own,
                              opening.server, opening.claims)) {
    co_return TokenRefusal("the server has another token or cluster");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(const PeerHello peer, DecodeHello(metadata.subspan(kNonce + kProof)));
  if (options.check_server) SIMURGH_CO_RETURN_IF_ERROR(options.check_server(peer.hello));
  co_return std::move(opening);
}

OutgoingSegment WithProof(const OutgoingSegment& hello, const Token& token,
                          const Opening& opening) {
  const Token::Proof proof =
      token.Prove(Token::kClient, opening.server, opening.own, Claims(opening.claims, hello.bytes));
  const auto bytes =
      std::make_shared<std::vector<std::byte>>(hello.bytes.begin(), hello.bytes.end());
  bytes->insert(bytes->end(), proof.begin(), proof.end());
  return {.bytes = *bytes, .owner = bytes};
}

awaitable<StatusOr<PeerHello>> ReadHello(Connection& connection, const Hello& own,
                                         const ClientOptions& options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const IncomingFrame frame, co_await ReadOpening(connection));
  if (frame.header.kind != FrameKind::kHello) {
    co_return absl::DataLossError("malformed frame: the server's first frame is not a HELLO");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(PeerHello peer, DecodeHello(frame.metadata));
  SIMURGH_CO_RETURN_IF_ERROR(connection.CheckRole(peer.hello.role));
  SIMURGH_CO_RETURN_IF_ERROR(CheckProtocol(peer));
  SIMURGH_CO_RETURN_IF_ERROR(CheckCluster(own, peer.hello));
  if (options.check_server) SIMURGH_CO_RETURN_IF_ERROR(options.check_server(peer.hello));
  co_return std::move(peer);
}

}  // namespace

awaitable<StatusOr<std::shared_ptr<ClientSession>>> ClientSession::Open(
    const std::string& address, const Hello& hello, const ClientOptions& options,
    const ObserverLink& observer, Clock::time_point deadline) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  const Users users = options.token == nullptr ? Users::kOwn : Users::kAll;
  SIMURGH_CO_ASSIGN_OR_RETURN(Socket socket, co_await Connect(parsed, deadline, users));
  SharingHandshake sharing(parsed.may_share() && !IsTcp(socket));
  std::shared_ptr<Stream> stream;
  if (options.tls != nullptr && IsTcp(socket)) {
    stream = ConnectTls(std::move(socket), options.tls, parsed.host);
  } else {
    stream = std::make_shared<SocketStream>(std::move(socket), sharing.files());
  }
  co_return co_await Introduce(std::move(stream), std::move(sharing), address, hello, options,
                               observer, deadline);
}

awaitable<StatusOr<std::shared_ptr<ClientSession>>> ClientSession::Introduce(
    std::shared_ptr<Stream> stream, SharingHandshake sharing, const std::string& address,
    const Hello& hello, const ClientOptions& options, const ObserverLink& observer,
    Clock::time_point deadline) {
  const auto connection =
      std::make_shared<Connection>(std::move(stream), address, kHelloLimits, observer);
  const Watchdog watchdog(connection->executor(), deadline, [connection] {
    connection->Close(absl::DeadlineExceededError("the server did not answer HELLO in time"));
  });
  StatusOr<Opening> opening = Opening();
  if (options.token != nullptr) {
    opening = co_await ExchangeProofs(*connection, hello.cluster, options);
    if (!opening.ok()) {
      connection->Close(opening.status());
      co_return opening.status();
    }
  }
  const uint64_t shared_memory = sharing.Offer(connection->executor(), options.shared_memory_bytes);
  OutgoingSegment own = EncodeHello(hello, FrameLimits::Of(options), 0, shared_memory);
  if (options.token != nullptr) own = WithProof(own, *options.token, *opening);
  connection->Send(
      {.header = {.kind = FrameKind::kHello}, .message = {.metadata = std::move(own)}});
  StatusOr<PeerHello> peer = co_await ReadHello(*connection, hello, options);
  auto shared = peer.ok() ? sharing.Agree(peer->features) : peer.status();
  if (!shared.ok()) {
    connection->Close(shared.status());
    co_return shared.status();
  }
  if (*shared != nullptr) connection->Share(*std::move(shared));
  connection->SetLimits(FrameLimits::Of(options));
  connection->Establish(address, *peer);
  auto session =
      std::make_shared<ClientSession>(connection, *std::move(peer), options.stall_timeout);
  asio::co_spawn(connection->executor(), session->Run(), asio::detached);
  co_return session;
}

ClientSession::ClientSession(std::shared_ptr<Connection> connection, PeerHello peer,
                             Clock::duration stall_timeout)
    : connection_(std::move(connection)),
      peer_(std::move(peer)),
      deadlines_(connection_->executor(),
                 [this](Clock::time_point now) { return ExpireCalls(now); }),
      stall_timeout_(stall_timeout),
      flow_timer_(connection_->executor(),
                  [this](Clock::time_point now) { return CheckFlow(now); }),
      window_(connection_->executor(),
              peer_.request_window_bytes != 0 ? peer_.request_window_bytes : UINT64_MAX) {
  connection_->FindIncomingPayloadsBy([this](uint64_t id) -> IncomingPayload* {
    const auto found = incoming_payloads_.find(id);
    return found == incoming_payloads_.end() ? nullptr : found->second.get();
  });
}

awaitable<StatusOr<IncomingMessage>> ClientSession::Exchange(uint32_t method,
                                                             OutgoingMessage& request,
                                                             Placement& placement,
                                                             const CallOptions& options) {
  const Clock::time_point deadline = options.deadline;
  const std::shared_ptr<ClientSession> self = shared_from_this();
  SIMURGH_CO_RETURN_IF_ERROR(CheckFits(request, peer_.limits));
  const bool unowned = HasBytesWithoutOwner(request);

  const uint64_t cost = window_.Cost(FrameBytes(request));
  if (!window_.TryEnter(cost) && !co_await window_.Enter(cost, deadline)) {
    co_return Expiry(deadline);
  }
  if (!usable()) {  // The connection ended after the window's grant.
    window_.Leave(cost);
    co_return Lost();
  }
  Call call(*this, std::move(placement), deadline);
  call.cost = cost;
  const FrameHeader header{.kind = FrameKind::kRequest,
                           .request_id = call.id,
                           .method = method,
                           .deadline_ms = RemainingMs(deadline),
                           .trace_id = options.trace.trace_id,
                           .span_id = options.trace.span_id};
  // Requests that are sent while answers are read leave in two halves of the calls in flight (from
  // 16 KiB on): the server works on one half while this end works on the other.
  connection_->CorkAtMost((calls_.size() + 1) / 2);
  call.frame = connection_->Send({.header = header, .message = std::move(request)});
  const auto state = co_await asio::this_coro::cancellation_state;
  const bool cancelled = state.cancelled() != asio::cancellation_type::none;
  if (!cancelled && !call.answered.over()) co_await call.answered.Wait();
  if (call.outcome) {
    if (connection_->outbox().Pending(call.frame)) co_await Settle(call, unowned);
    co_return *std::move(call.outcome);
  }
  const Status reason = Expiry(deadline);
  Abandon(call, unowned);
  co_return reason;
}

awaitable<void> ClientSession::Settle(const Call& call, bool unowned) {
  if (connection_->outbox().Withdraw(call.frame) == Outbox::Withdrawn::kRest) SendCancel(call.id);
  if (!unowned) co_return;
  const auto close = [this] { connection_->Close(AbandonedHalfWritten()); };
  const Watchdog watchdog(connection_->executor(), call.deadline, close);
  // CloseAfterWrites() still sends the bytes.
  while (connection_->reason().ok() && connection_->outbox().Pending(call.frame)) {
    const bool written = co_await connection_->WaitForWrite();
    if (!written) close();
  }
}

Status ClientSession::Expiry(Clock::time_point deadline) const {
  if (!connection_->reason().ok()) return Lost();
  if (deadline <= Clock::now()) {
    return absl::DeadlineExceededError("no response before the deadline");
  }
  return absl::CancelledError("the caller was cancelled");
}

Status ClientSession::Lost() const {
  const Status& reason = connection_->reason();
  return {absl::IsCancelled(reason) ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable,
          absl::StrCat("connection to ", connection_->peer(),
                       " lost: ", reason.ok() ? "the server is stopping" : reason.message())};
}

void ClientSession::Abandon(Call& call, bool unowned) {
  if (connection_->outbox().Withdraw(call.frame) == Outbox::Withdrawn::kWhole) {
    window_.Leave(std::exchange(call.cost, 0));
  } else if (unowned && connection_->outbox().Pending(call.frame)) {
    // The caller frees the bytes, and a frame that has begun must be written whole.
    connection_->Close(AbandonedHalfWritten());
  } else if (connection_->open()) {
    SendCancel(call.id);
  }
}

void ClientSession::Close(const Status& reason) {
  NoteEnd();
  connection_->Close(reason);
  window_.Close();
  const absl::flat_hash_map<uint64_t, Call*> lost = std::exchange(calls_, {});
  for (const auto& [id, call] : lost) {
    call->outcome = Lost();
    call->answered.ResumeLater();
  }
}

void ClientSession::Complete(uint64_t id, StatusOr<IncomingMessage> outcome) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;  // The call has ended.
  Call* const call = found->second;
  calls_.erase(found);
  call->outcome = std::move(outcome);
  call->answered.Resume();
}

Clock::time_point ClientSession::ExpireCalls(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [id, call] : calls_) {
    if (call->deadline <= now) {
      call->answered.ResumeLater();
    } else {
      next = std::min(next, call->deadline);
    }
  }
  return next;
}

ClientSession::Call* ClientSession::Answered(uint64_t id) {
  has_answered_ = true;
  Call* const call = Find(id);
  if (call != nullptr) {
    window_.Leave(std::exchange(call->cost, 0));
  } else if (const auto owed = owed_.extract(id)) {
    window_.Leave(owed.mapped());
  }
  return call;
}

void ClientSession::CloseIfDone() {
  if (!going_away_ || !calls_.empty()) return;
  connection_->CloseAfterWrites(absl::UnavailableError("the server is stopping"));
}

awaitable<void> ClientSession::Run() {
  const std::shared_ptr<ClientSession> self = shared_from_this();
  Status end;
  try {
    end = co_await ReadFrames();
  } catch (...) {
    end = StatusOfException(std::current_exception());
  }
  Close(end);
}

Clock::time_point ClientSession::CheckFlow(Clock::time_point now) {
  if (!connection_->IsStalled(!incoming_payloads_.empty(), chunk_rounds_, now, stall_timeout_)) {
    return FlowWatch::NextSample(now, stall_timeout_);
  }
  Close(WithCloseReason(absl::DeadlineExceededError("the server stopped within a message"),
                        CloseReason::kStalled));
  return Clock::time_point::max();
}

awaitable<Status> ClientSession::ReadFrames() {
  flow_timer_.Note(CheckFlow(Clock::now()));
  for (;;) {
    if (connection_->TurnIsOver()) co_await connection_->Yield();
    std::optional<StatusOr<IncomingFrame>> frame = connection_->TryReadFrame();
    if (!frame) frame = co_await connection_->ReadFrame();
    SIMURGH_CO_RETURN_IF_ERROR(frame->status());
    SIMURGH_CO_ASSIGN_OR_RETURN(const std::shared_ptr<IncomingPayload> payload,
                                OnFrame(*std::move(*frame)));
    if (payload == nullptr) {
      if (connection_->payload_left() != 0) {
        SIMURGH_CO_RETURN_IF_ERROR(co_await connection_->SkipPayload());
      }
      continue;
    }
    std::optional<Status> read = connection_->TryReadPayload(*payload);
    if (!read) read = co_await connection_->ReadPayload(*payload);
    SIMURGH_CO_RETURN_IF_ERROR(*read);
    if (payload->left() != 0) continue;
    const uint64_t id = payload->header().request_id;
    if (payload->header().chunked()) EndIncomingPayload(id);
    if (Call* const call = Find(id)) {
      call->payload = nullptr;
      Complete(id, payload->TakeMessage());
    }
  }
}

StatusOr<std::shared_ptr<IncomingPayload>> ClientSession::OnFrame(IncomingFrame&& frame) {
  switch (frame.header.kind) {
    case FrameKind::kResponse:
      return OnResponse(std::move(frame));
    case FrameKind::kChunk: {
      const auto found = incoming_payloads_.find(frame.header.request_id);
      return found == incoming_payloads_.end() ? nullptr : found->second;
    }
    case FrameKind::kError:
      SIMURGH_RETURN_IF_ERROR(OnError(frame));
      return nullptr;
    case FrameKind::kGoaway:
      going_away_ = true;
      NoteEnd();
      CloseIfDone();
      return nullptr;
    case FrameKind::kPadding:
      return nullptr;
    default:
      return absl::DataLossError("malformed frame: a server must not send this kind");
  }
}

StatusOr<std::shared_ptr<IncomingPayload>> ClientSession::OnResponse(IncomingFrame&& frame) {
  const uint64_t id = frame.header.request_id;
  Call* const call = Answered(id);
  if (call == nullptr) return nullptr;
  if (call->payload != nullptr) {
    return absl::DataLossError(absl::StrCat("malformed frame: a second response to request ", id));
  }
  StatusOr<Placed> placed = PlaceSegments(call->placement, frame);
  if (!placed.ok()) {
    Complete(id, placed.status());
    return nullptr;
  }
  auto payload =
      std::make_shared<IncomingPayload>(std::move(frame), std::move(placed->destinations));
  call->payload = payload;
  if (payload->header().chunked()) incoming_payloads_.insert_or_assign(id, payload);
  return payload;
}

Status ClientSession::OnError(const IncomingFrame& frame) {
  Status error;
  SIMURGH_RETURN_IF_ERROR(DecodeError(frame.header, frame.metadata, error));
  if (frame.header.request_id == 0) {
    return absl::UnavailableError(
        absl::StrCat("the server closed the connection: ", error.ToString()));
  }
  EndIncomingPayload(frame.header.request_id);
  if (Call* const call = Answered(frame.header.request_id)) call->payload = nullptr;
  Complete(frame.header.request_id, error);
  return absl::OkStatus();
}

}  // namespace simurgh::rpc
