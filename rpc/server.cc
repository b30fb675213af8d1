#include "rpc/server.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "rpc/server_session.h"
#include "rpc/transport.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxHandshakes = 64;
// How long a draining server lets its peers close first, so that none finds its connection lost.
constexpr std::chrono::milliseconds kGoawayLinger{500};
// Before accepting again when the machine is short of file descriptors or memory.
constexpr std::chrono::milliseconds kAcceptPause{100};

awaitable<void> AcceptLoop(std::shared_ptr<ServerCore> core, std::shared_ptr<Listener> listener) {
  for (;;) {
    co_await core->handshakes.WaitUntilAtMost(kMaxHandshakes - 1, Clock::time_point::max());
    StatusOr<Socket> socket = co_await listener->Accept();
    if (absl::IsCancelled(socket.status())) co_return;
    if (!socket.ok()) {
      asio::steady_timer pause(core->executor, kAcceptPause);
      co_await pause.async_wait(kNoThrow);
      continue;
    }
    const std::string peer = PeerName(*socket);
    const auto session = std::make_shared<ServerSession>(core, *std::move(socket), peer);
    asio::co_spawn(core->executor, session->Run(), asio::detached);
  }
}

// The open sessions, kept alive: the set changes while they close.
std::vector<std::shared_ptr<ServerSession>> Sessions(const ServerCore& core) {
  std::vector<std::shared_ptr<ServerSession>> sessions;
  for (ServerSession* session : core.sessions) sessions.push_back(session->shared_from_this());
  return sessions;
}

void CloseAll(const ServerCore& core) {
  for (const auto& session : Sessions(core)) {
    session->Close(absl::CancelledError("the server has stopped"));
  }
}

awaitable<void> DrainCore(std::shared_ptr<ServerCore> core, Clock::time_point deadline) {
  for (const auto& session : Sessions(*core)) session->SayGoaway();
  for (const auto& session : Sessions(*core)) co_await session->Answered(deadline);
  co_await core->connections.WaitUntilAtMost(0, std::min(deadline, Clock::now() + kGoawayLinger));
  CloseAll(*core);
  co_await core->requests.WaitUntilAtMost(0, Clock::time_point::max());
}

}  // namespace

class Server::Impl {
 public:
  Impl(asio::any_io_executor executor, Hello hello, ServerOptions options, Observer* observer)
      : core_(std::make_shared<ServerCore>(std::move(executor), std::move(hello), options,
                                           observer)) {}

  ~Impl() {
    StopListening();
    CloseAll(*core_);
    core_->observer.Cut();
  }

  void Register(Method method) {
    SIMURGH_CHECK(listeners_.empty()) << "methods are registered before Listen";
    const uint32_t number = method.number;
    const bool fresh = core_->methods.emplace(number, std::move(method)).second;
    SIMURGH_CHECK(fresh) << "method " << number << " is registered twice";
  }

  Status Listen(const std::string& text) {
    SIMURGH_CHECK(listeners_.empty()) << "a server listens once";
    SIMURGH_ASSIGN_OR_RETURN(const Address address, ParseAddress(text));
    SIMURGH_ASSIGN_OR_RETURN(auto opened, rpc::Listen(core_->executor, address));
    for (std::unique_ptr<Listener>& listener : opened) {
      listeners_.emplace_back(std::move(listener));
      asio::co_spawn(core_->executor, AcceptLoop(core_, listeners_.back()), asio::detached);
    }
    return absl::OkStatus();
  }

  std::string address() const { return listeners_.empty() ? "" : listeners_[0]->address(); }

  awaitable<void> Drain(Clock::time_point deadline) {
    StopListening();
    return DrainCore(core_, deadline);
  }

 private:
  void StopListening() {
    core_->draining = true;
    for (const auto& listener : listeners_) listener->Close();
  }

  const std::shared_ptr<ServerCore> core_;
  std::vector<std::shared_ptr<Listener>> listeners_;
};

Server::Server(asio::any_io_executor executor, Hello hello, ServerOptions options,
               Observer* observer)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(hello), options, observer)) {}

Server::~Server() = default;

void Server::Register(Method method) { impl_->Register(std::move(method)); }

Status Server::Listen(const std::string& address) { return impl_->Listen(address); }

std::string Server::address() const { return impl_->address(); }

awaitable<void> Server::Drain(Clock::time_point deadline) { return impl_->Drain(deadline); }

}  // namespace simurgh::rpc
