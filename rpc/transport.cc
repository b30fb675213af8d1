#include "rpc/transport.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/check.h"
#include "rpc/address.h"
#include "rpc/timers.h"

namespace simurgh::rpc {
namespace {

using asio::ip::tcp;

bool IsOnThisHost(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (endpoint.address() == address) return true;
  }
  return false;
}

}  // namespace

std::string LocalName(const tcp::endpoint& bound) {
  return "simurgh-rpc/" +
         ToString(Address{.host = bound.address().to_string(), .port = bound.port()});
}

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name) {
  return asio::local::stream_protocol::endpoint(std::string(1, '\0') + name);
}

std::vector<std::string> LocalNames(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  if (!IsOnThisHost(address)) return {};
  std::vector<std::string> names{LocalName(endpoint)};
  // A server bound to all IPv6 addresses accepts IPv4, too.
  if (address.is_v4()) names.push_back(LocalName({tcp::v4(), endpoint.port()}));
  names.push_back(LocalName({tcp::v6(), endpoint.port()}));
  return names;
}

bool IsOwnUser(asio::generic::stream_protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  const int handle = socket.native_handle();
  if (::getsockopt(handle, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  // For TCP sockets the user is invalid.
  return peer.uid == ::geteuid() || peer.uid == 0;
}

std::vector<FileDescriptor> FilePassing::TakeAll() {
  receives_ = false;
  return std::exchange(received_, {});
}

void FilePassing::PrepareToSend(msghdr& message) {
  if (to_send_.empty()) return;
  SIMURGH_CHECK_LE(to_send_.size(), kMaxFiles);
  const size_t bytes = to_send_.size() * sizeof(int);
  message.msg_control = control_.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  for (size_t i = 0; i < to_send_.size(); ++i) {
    const int number = to_send_[i].number();
    std::memcpy(CMSG_DATA(header) + i * sizeof(int), &number, sizeof(number));
  }
}

void FilePassing::PrepareToReceive(msghdr& message) {
  // Without a control buffer the kernel drops the files.
  if (!receives_ || received_.size() >= kMaxFiles) return;
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
}

void FilePassing::Received(msghdr& message) {
  if (message.msg_control == nullptr) return;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at, sizeof(number));
      received_.emplace_back(number);
    }
  }
}

namespace {

using ErrorCode = boost::system::error_code;
using Endpoint = asio::generic::stream_protocol::endpoint;
using asio::ip::tcp;

// A dead machine is detected after about 2 min, on idle and busy connections. Not sooner: the user
// timeout also applies to a peer that is alive but does not read.
constexpr int kKeepAliveIdleSeconds = 30;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kUserTimeoutMilliseconds = 120'000;

// Buffers of local connections, measured with bench_rpc. The receive buffer holds a large chunk, so
// that both ends sleep rarely. The send buffer is small enough to stay in the cache; a Unix
// socket's default is too small. The cost: a small call waits longer next to a large one. For other
// connections the kernel chooses the sizes.
constexpr int kLocalTcpSendBufferBytes = 786'432;
constexpr int kLocalTcpReceiveBufferBytes = 2'097'152;
constexpr int kUnixSendBufferBytes = 524'288;

// Congestion control of local connections. Pacing (as by BBR) halves the throughput from 64 KiB on.
// Every kernel has reno, for every user, and it does not pace.
constexpr std::string_view kUnpaced = "reno";

void SetOption(int socket, int level, int name, int value) {
  // Best effort: a connection works without these options.
  (void)::setsockopt(socket, level, name, &value, sizeof(value));
}

// Nullopt for a Unix socket.
std::optional<tcp::endpoint> InternetEndpoint(const Endpoint& endpoint) {
  tcp::endpoint internet;
  const int family = endpoint.protocol().family();
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  if (endpoint.size() > internet.capacity()) return std::nullopt;
  std::memcpy(internet.data(), endpoint.data(), endpoint.size());
  internet.resize(endpoint.size());
  return internet;
}

bool IsLoopback(const Endpoint& endpoint) {
  const std::optional<tcp::endpoint> internet = InternetEndpoint(endpoint);
  return internet && internet->address().is_loopback();
}

// Requires that the socket is not connected: pacing that has begun would continue. Accepted sockets
// inherit the option from the listening one.
void SendUnpaced(int socket) {
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
}

void Tune(Socket& socket) {
  const int handle = socket.native_handle();
  if (IsTcp(socket)) {
    SetOption(handle, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
    SetOption(handle, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    SetOption(handle, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
    SetOption(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMilliseconds);
  }
  if (!IsLocal(socket)) return;
  if (!IsTcp(socket)) return SetOption(handle, SOL_SOCKET, SO_SNDBUF, kUnixSendBufferBytes);
  SetOption(handle, SOL_SOCKET, SO_SNDBUF, kLocalTcpSendBufferBytes);
  SetOption(handle, SOL_SOCKET, SO_RCVBUF, kLocalTcpReceiveBufferBytes);
}

Endpoint UnixEndpoint(const std::string& path) {
  return asio::local::stream_protocol::endpoint(path);
}

// Removes a socket file without a listener. Returns whether the path is free.
bool RemoveStale(const asio::any_io_executor& executor, const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT;
  if (!S_ISSOCK(info.st_mode)) return false;
  Socket probe(executor);
  ErrorCode error;
  probe.connect(UnixEndpoint(path), error);
  if (error != asio::error::connection_refused) return false;
  return ::unlink(path.c_str()) == 0 || errno == ENOENT;
}

StatusOr<Endpoint> OwnEndpoint(const asio::any_io_executor& executor, const Address& address) {
  if (address.has_path()) return UnixEndpoint(address.path);
  tcp::resolver resolver(executor);
  ErrorCode error;
  const auto found =
      resolver.resolve(address.host, std::to_string(address.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on host '", address.host, "': ", error.message()));
  }
  return Endpoint(found.begin()->endpoint());
}

bool IsLocalName(const Endpoint& endpoint) {
  const auto& raw = *reinterpret_cast<const sockaddr_un*>(endpoint.data());
  return endpoint.protocol().family() == AF_UNIX && raw.sun_path[0] == '\0';
}

// Registers the connection with Asio again, as an accepted one. Asio watches sockets that it has
// connected for writability forever, which wakes the thread without need.
Socket Unwatched(Socket socket, const Endpoint& peer, ErrorCode& error) {
  Socket fresh(socket.get_executor());
  const int handle = socket.release(error);
  if (error) return fresh;
  fresh.assign(peer.protocol(), handle, error);
  if (error) (void)::close(handle);
  return fresh;
}

Status CannotListen(const std::string& where, const ErrorCode& error) {
  if (error == asio::error::no_descriptors) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot listen on ", where, ": ", error.message(), RemedyOf(error.value())));
  }
  if (error == asio::error::address_in_use) {
    return absl::AlreadyExistsError(absl::StrCat("address ", where, " is in use"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen on ", where, ": ", error.message()));
}

}  // namespace

awaitable<StatusOr<Socket>> Connect(const Address& address, Clock::time_point deadline,
                                    Users users) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Socket socket(executor);
  tcp::resolver resolver(executor);
  const Watchdog watchdog(executor, deadline, [&] {
    resolver.cancel();
    ErrorCode ignored;
    socket.close(ignored);
  });

  const auto state = co_await asio::this_coro::cancellation_state;
  const auto cancelled = [&] { return state.cancelled() != asio::cancellation_type::none; };

  std::vector<Endpoint> endpoints;  // Endpoints in the order of attempts.
  ErrorCode error;
  if (address.has_path()) {
    endpoints.push_back(UnixEndpoint(address.path));
  } else {
    auto [failure, found] =
        co_await resolver.async_resolve(address.host, std::to_string(address.port), kNoThrow);
    error = failure;
    for (const auto& entry : found) {
      if (address.kind == Address::Kind::kAuto) {
        for (const auto& name : LocalNames(entry.endpoint())) {
          endpoints.push_back(LocalEndpoint(name));
        }
      }
      endpoints.emplace_back(entry.endpoint());
    }
  }
  for (const Endpoint& endpoint : endpoints) {
    // Cancellation does not stop a lookup, nor operations that have completed.
    if (watchdog.expired() || cancelled()) break;
    socket.close(error);
    socket.open(endpoint.protocol(), error);
    if (error) continue;
    if (IsLoopback(endpoint)) SendUnpaced(socket.native_handle());
    auto [failure] = co_await socket.async_connect(endpoint, kNoThrow);
    error = failure;
    if (error || cancelled() || (IsLocalName(endpoint) && !IsOwnUser(socket))) continue;
    if (address.has_path() && users == Users::kOwn && !IsOwnUser(socket)) {
      co_return absl::PermissionDeniedError(
          absl::StrCat("connect: a process of another user listens at ", ToString(address),
                       "; run both as one user, or set cluster.token_file"));
    }
    Tune(socket);
    Socket connected = Unwatched(std::move(socket), endpoint, error);
    if (error) break;
    co_return std::move(connected);
  }
  if (watchdog.expired()) co_return absl::DeadlineExceededError("connecting timed out");
  if (cancelled()) co_return absl::CancelledError("the caller was cancelled");
  // On a Unix socket, EAGAIN means that the listener is busy.
  const char* const remedy = error == asio::error::no_descriptors ? RemedyOf(error.value()) : "";
  co_return absl::UnavailableError(absl::StrCat("connect: ", error.message(), remedy));
}

bool IsTcp(const Socket& socket) {
  ErrorCode error;
  const std::optional<tcp::endpoint> endpoint = InternetEndpoint(socket.local_endpoint(error));
  return error || endpoint.has_value();  // On an error, assume the less trusted kind.
}

bool IsLocal(const Socket& socket) {
  ErrorCode error;
  const Endpoint peer = socket.remote_endpoint(error);
  return !error && (IsLoopback(peer) || !InternetEndpoint(peer));
}

std::string PeerName(const Socket& socket) {
  ErrorCode error;
  const Endpoint endpoint = socket.remote_endpoint(error);
  if (error) return "unknown";
  const std::optional<tcp::endpoint> internet = InternetEndpoint(endpoint);
  if (!internet) return "unix";
  return ToString(Address{.host = internet->address().to_string(), .port = internet->port()});
}

bool HasHungUp(Socket& socket) {
  pollfd ends{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&ends, 1, 0) > 0 && (ends.revents & (POLLRDHUP | POLLHUP)) != 0;
}

StatusOr<std::unique_ptr<Listener>> Listener::Open(asio::any_io_executor executor,
                                                   const Address& address, Reach reach,
                                                   Users users) {
  SIMURGH_ASSIGN_OR_RETURN(const Endpoint endpoint, OwnEndpoint(executor, address));
  // The check follows name resolution, and no client can connect before it.
  const auto internet = InternetEndpoint(endpoint);
  if (reach == Reach::kThisHost && internet && !internet->address().is_loopback()) {
    return absl::FailedPreconditionError(
        absl::StrCat("listen on ", ToString(address),
                     ": other machines can reach it without TLS; use a loopback address, "
                     "configure TLS, or declare the server insecure"));
  }
  auto listener = std::make_unique<Listener>(executor, address);
  auto& acceptor = listener->acceptor_;
  ErrorCode error;
  acceptor.open(endpoint.protocol(), error);
  if (!error && !address.has_path()) {
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error && address.has_path() && users == Users::kOwn) {
    // The file that bind() makes has the mode of the socket, less the umask.
    if (::fchmod(acceptor.native_handle(), S_IRUSR | S_IWUSR) != 0) {
      error.assign(errno, boost::system::system_category());
    }
    listener->own_user_only_ = true;
  }
  if (!error) acceptor.bind(endpoint, error);
  if (error == asio::error::address_in_use && address.has_path() &&
      RemoveStale(executor, address.path)) {
    acceptor.bind(endpoint, error);
  }
  if (!error && IsLoopback(endpoint)) SendUnpaced(acceptor.native_handle());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return CannotListen(ToString(address), error);
  if (const auto bound = InternetEndpoint(acceptor.local_endpoint())) {
    listener->address_.host = bound->address().to_string();
    listener->address_.port = bound->port();
  } else {
    listener->unix_path_ = address.path;
  }
  return listener;
}

StatusOr<std::unique_ptr<Listener>> Listener::OpenLocal(Listener& other) {
  const auto bound = InternetEndpoint(other.acceptor_.local_endpoint());
  SIMURGH_CHECK(bound.has_value()) << "only TCP listeners have a local socket";
  const std::string name = LocalName(*bound);
  auto listener = std::make_unique<Listener>(other.acceptor_.get_executor(), other.address_);
  auto& acceptor = listener->acceptor_;
  const Endpoint endpoint = LocalEndpoint(name);
  ErrorCode error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return CannotListen(absl::StrCat("@", name), error);
  listener->own_user_only_ = true;
  return listener;
}

awaitable<StatusOr<Socket>> Listener::Accept() {
  for (;;) {
    Socket socket(acceptor_.get_executor());
    auto [error] = co_await acceptor_.async_accept(socket, kNoThrow);
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) {
      co_return absl::CancelledError("the listener was closed");
    }
    if (error) co_return absl::UnavailableError(absl::StrCat("accept: ", error.message()));
    if (own_user_only_ && !IsOwnUser(socket)) continue;
    Tune(socket);
    co_return std::move(socket);
  }
}

void Listener::Close() {
  if (!unix_path_.empty()) (void)::unlink(unix_path_.c_str());
  unix_path_.clear();
  ErrorCode ignored;
  acceptor_.close(ignored);
}

StatusOr<std::vector<std::unique_ptr<Listener>>> Listen(const asio::any_io_executor& executor,
                                                        const Address& address, Reach reach,
                                                        Users users) {
  std::vector<std::unique_ptr<Listener>> listeners(1);
  SIMURGH_ASSIGN_OR_RETURN(listeners[0], Listener::Open(executor, address, reach, users));
  if (address.kind != Address::Kind::kAuto) return listeners;
  StatusOr<std::unique_ptr<Listener>> local = Listener::OpenLocal(*listeners[0]);
  // Any process can take the name. It must not keep this server from its port.
  if (absl::IsAlreadyExists(local.status())) return listeners;
  SIMURGH_ASSIGN_OR_RETURN(listeners.emplace_back(), std::move(local));
  return listeners;
}

}  // namespace simurgh::rpc
