#include "services/runtime/listener.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "rpc/address.h"
#include "services/runtime/peer_monitor.h"
#include "services/runtime/process.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};

}  // namespace

Addresses Resolve(const std::string& host, uint16_t port, int* error) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != nullptr) *error = code;
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

int TryBind(const Addresses& addresses) {
  const FileDescriptor socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  return ::bind(socket.number(), addresses->ai_addr, addresses->ai_addrlen) == 0 ? 0 : errno;
}

Status AwaitOwnHost(DaemonContext& context, const std::string& key, const std::string& address) {
  const auto parsed = rpc::ParseAddress(address);
  if (!parsed.ok() || parsed->has_path()) return absl::OkStatus();
  std::chrono::milliseconds pause = kFirstPause;
  for (int error = 0; Resolve(parsed->host, 0, &error) == nullptr;
       pause = std::min(2 * pause, kLongestPause)) {
    const std::string reason =
        absl::StrCat(key, ": host '", parsed->host, "' does not resolve: ", ::gai_strerror(error));
    spdlog::warn("waiting: {}; correct the host, or add it to the name service", reason);
    context.SetWaiting("host", absl::UnavailableError(reason));
    if (AwaitStop(context.stop_source().get_token(), pause)) {
      return absl::CancelledError("stopped while waiting");
    }
  }
  context.SetWaiting("host", absl::OkStatus());
  return absl::OkStatus();
}

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

Status ListenOn(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const std::string& place) {
  boost::system::error_code error;
  if (acceptor.is_open()) acceptor.close();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  if (error == asio::error::address_in_use) {
    return absl::AlreadyExistsError(absl::StrCat(
        place, " is in use by another process; choose another port, or 0 for any free one"));
  }
  return absl::UnavailableError(
      absl::StrCat(place, ": cannot listen: ", error.message(),
                   error == asio::error::no_descriptors
                       ? RemedyOf(error.value())
                       : "; give an address of this host, with a port above 1023"));
}

}  // namespace

StatusOr<TcpListener> ListenAt(boost::asio::any_io_executor executor, const std::string& address,
                               const std::string& key) {
  const std::string place = absl::StrCat(key, ": '", address, "'");
  const auto parts = rpc::ParseAddress(address);
  if (!parts.ok() || parts->kind != rpc::Address::Kind::kTcp || absl::StrContains(address, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, " is not host:port; write for example 127.0.0.1:9100"));
  }
  boost::system::error_code error;
  tcp::resolver resolver(executor);
  const auto found =
      resolver.resolve(parts->host, absl::StrCat(parts->port), tcp::resolver::passive, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": host cannot be resolved: ", error.message(), "; correct the host"));
  }
  TcpListener listener{.acceptor = tcp::acceptor(std::move(executor)), .address = ""};
  Status status;
  for (const auto& entry : found) {
    status = ListenOn(listener.acceptor, entry.endpoint(), place);
    if (!status.ok()) continue;
    std::ostringstream text;
    text << listener.acceptor.local_endpoint();
    listener.address = text.str();
    listener.is_loopback = listener.acceptor.local_endpoint().address().is_loopback();
    return listener;
  }
  return status;
}

namespace {

// Names the configuration key and the remedy.
Status Explain(const Status& status, const InstanceConfig& instance) {
  if (absl::IsFailedPrecondition(status)) {
    return absl::InvalidArgumentError(absl::StrCat(
        instance.listen_key, ": ", instance.listens_at(),
        " is reachable from other machines, but rpc.security is loopback; listen on a loopback "
        "address, or set rpc.security: tls with files in rpc.tls, or rpc.security: insecure with "
        "cluster.token_file in a trusted network"));
  }
  if (absl::IsResourceExhausted(status)) return Annotate(status, instance.listen_key);
  return Status(status.code(),
                absl::StrCat(instance.listen_key, ": ", status.message(),
                             "; stop the process that listens there, or choose another address"));
}

rpc::awaitable<StatusOr<rpc::Outgoing<Ready::Response>>> OnReady(const DaemonContext& context) {
  const Readiness readiness = context.readiness();
  if (readiness.ready) co_return rpc::Outgoing<Ready::Response>();
  const Status waiting = context.waiting();
  const bool is_refused = absl::IsInvalidArgument(waiting) || absl::IsUnauthenticated(waiting);
  co_return Status(
      is_refused ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
      readiness.reason);
}

}  // namespace

Listener::Listener(DaemonContext& context)
    : observer_(context.metrics(), RpcSide::kServer), thread_("rpc", context.config().rpc.spin) {}

Listener::~Listener() { Close(); }

void Listener::Close() {
  // Only its own thread may destroy the server.
  thread_.RunAndWait([this] { server_.reset(); });
}

Status Listener::Listen(DaemonContext& context, const rpc::ServerOptions& options,
                        const std::function<void(rpc::Server&)>& register_methods) {
  const InstanceConfig& instance = context.instance();
  SIMURGH_RETURN_IF_ERROR(AwaitOwnHost(context, instance.listen_key, instance.listens_at()));
  Status status;
  thread_.RunAndWait([&] {
    server_ =
        std::make_unique<rpc::Server>(thread_.executor(), context.hello(), options, &observer_);
    register_methods(*server_);
    rpc::Register(*server_, kReady, [&context](auto /*request*/) { return OnReady(context); });
    status = server_->Listen(instance.listens_at());
  });
  if (!status.ok()) return Explain(status, instance);
  spdlog::info("listening at {}", server_->address());
  return absl::OkStatus();
}

void Listener::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto drain = [&]() -> rpc::awaitable<void> { co_await server_->Drain(deadline); };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
}

}  // namespace simurgh
