#include "rpc/server.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "rpc/connection.h"
#include "rpc/server_session.h"
#include "rpc/stream.h"
#include "rpc/tls.h"
#include "rpc/transport.h"

namespace simurgh::rpc {
namespace {

// The time after GOAWAY in which clients may close their connections themselves.
constexpr std::chrono::milliseconds kGoawayLinger{500};
// The pause before the next accept when file descriptors or memory are short.
constexpr std::chrono::milliseconds kAcceptPause{100};

// The ERROR frame that a TLS server sends to a client without TLS.
std::string PlainRefusal() {
  OutgoingFrame frame = ErrorFrame(
      0, absl::InvalidArgumentError("TLS: the server requires it; configure TLS for the client"));
  const std::span<const std::byte> metadata = frame.message.metadata.bytes;
  frame.header.metadata_length = static_cast<uint32_t>(metadata.size());
  const FrameHeader header = Seal(frame.header);
  std::string bytes(reinterpret_cast<const char*>(&header), kHeaderBytes);
  return bytes.append(reinterpret_cast<const char*>(metadata.data()), metadata.size());
}

awaitable<void> AcceptLoop(std::shared_ptr<ServerCore> core, std::shared_ptr<Listener> listener) {
  for (;;) {
    StatusOr<Socket> socket = co_await listener->Accept();
    if (absl::IsCancelled(socket.status())) co_return;
    if (!socket.ok()) {
      core->observer->OnThrottle(listener->address(), ThrottleReason::kAccept);
      asio::steady_timer pause(core->executor, kAcceptPause);
      co_await pause.async_wait(kNoThrow);
      continue;
    }
    if (!core->newcomers.empty() && core->newcomers.size() >= core->options.max_newcomers) {
      // Silent peers must not keep others out.
      core->newcomers.front()->Close(WithCloseReason(
          absl::ResourceExhaustedError("no HELLO, and too many newer connections without one"),
          CloseReason::kCrowd));
    }
    SharingHandshake sharing(listener->may_share());
    std::shared_ptr<Stream> stream;
    if (core->options.tls != nullptr && IsTcp(*socket)) {
      stream = AcceptTls(*std::move(socket), core->options.tls, PlainRefusal());
    } else {
      stream = std::make_shared<SocketStream>(*std::move(socket), sharing.files());
    }
    const auto session = std::make_shared<ServerSession>(core, stream, std::move(sharing));
    asio::co_spawn(core->executor, session->Run(), asio::detached);
  }
}

// Owning copies: the set changes while sessions close.
std::vector<std::shared_ptr<ServerSession>> Sessions(const ServerCore& core) {
  std::vector<std::shared_ptr<ServerSession>> sessions;
  sessions.reserve(core.sessions.size());
  for (ServerSession* session : core.sessions) sessions.push_back(session->shared_from_this());
  return sessions;
}

void CloseAll(const ServerCore& core) {
  for (const auto& session : Sessions(core)) {
    session->Close(absl::CancelledError("the server was stopped"));
  }
}

awaitable<void> DrainCore(std::shared_ptr<ServerCore> core, Clock::time_point deadline) {
  for (const auto& session : Sessions(*core)) session->SendGoaway();
  for (const auto& session : Sessions(*core)) co_await session->Answered(deadline);
  co_await core->connections.WaitUntilAtMost(0, std::min(deadline, Clock::now() + kGoawayLinger));
  CloseAll(*core);
  co_await core->requests.WaitUntilAtMost(0, Clock::time_point::max());
}

}  // namespace

SegmentBuffer Request::Allocate(size_t bytes) const {
  if (largest_answer != nullptr) Raise(*largest_answer, bytes);
  return AllocateSegment(sharing.get(), bytes);
}

Server::Server(asio::any_io_executor executor, Hello hello, const ServerOptions& options,
               Observer* observer)
    : core_(
          std::make_shared<ServerCore>(std::move(executor), std::move(hello), options, observer)) {}

Server::~Server() {
  StopListening();
  CloseAll(*core_);
  core_->observer.Detach();
}

void Server::Register(Method method) {
  SIMURGH_CHECK(listeners_.empty()) << "Register() after Listen()";
  const uint32_t number = method.id.number;
  const bool fresh = core_->methods.emplace(number, std::move(method)).second;
  SIMURGH_CHECK(fresh) << "method " << number << " is registered twice";
}

Status Server::Listen(const std::string& address) {
  SIMURGH_CHECK(listeners_.empty()) << "Listen() twice";
  SIMURGH_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  const ServerOptions& options = core_->options;
  const Reach reach = options.tls != nullptr || options.insecure ? Reach::kAll : Reach::kThisHost;
  const Users users = options.token == nullptr ? Users::kOwn : Users::kAll;
  SIMURGH_ASSIGN_OR_RETURN(auto opened, rpc::Listen(core_->executor, parsed, reach, users));
  if (parsed.kind == Address::Kind::kAuto && opened.size() == 1) {
    core_->observer->OnClose(
        opened[0]->address(), CloseReason::kRefused,
        absl::AlreadyExistsError("another process has the name of the local socket; peers of this "
                                 "host use TCP; find it with `ss -xlp | grep simurgh-rpc`"));
  }
  for (std::unique_ptr<Listener>& listener : opened) {
    listeners_.emplace_back(std::move(listener));
    asio::co_spawn(core_->executor, AcceptLoop(core_, listeners_.back()), asio::detached);
  }
  return absl::OkStatus();
}

std::string Server::address() const { return listeners_.empty() ? "" : listeners_[0]->address(); }

awaitable<void> Server::Drain(Clock::time_point deadline) {
  StopListening();
  return DrainCore(core_, deadline);
}

void Server::StopListening() {
  core_->draining = true;
  for (const auto& listener : listeners_) listener->Close();
}

}  // namespace simurgh::rpc
