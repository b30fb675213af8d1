#include "bench/micro/rpc/raw_socket.h"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace simurgh::bench {
namespace {

constexpr int kSendBufferBytes = 524'288;
constexpr int kReceiveBufferBytes = 262'144;

struct Endpoint {
  union {
    sockaddr any;
    sockaddr_in internet;
    sockaddr_un local;
  };
  socklen_t size = 0;
};

StatusOr<Endpoint> EndpointOf(const std::string& transport, const std::string& address) {
  Endpoint endpoint{};
  if (transport == "unix") {
    endpoint.local.sun_family = AF_UNIX;
    if (address.size() >= sizeof(endpoint.local.sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat("path too long: ", address));
    }
    std::memcpy(endpoint.local.sun_path, address.data(), address.size());
    endpoint.size = sizeof(endpoint.local);
    return endpoint;
  }
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  endpoint.internet.sin_family = AF_INET;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &endpoint.internet.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("no IPv4 address with a port: ", address));
  }
  endpoint.internet.sin_port = htons(static_cast<uint16_t>(port));
  endpoint.size = sizeof(endpoint.internet);
  return endpoint;
}

StatusOr<RawSocket> NewSocket(const std::string& transport) {
  const int handle = ::socket(transport == "unix" ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
  if (handle < 0) return SystemError("socket");
  RawSocket socket(handle);
  constexpr std::string_view kUnpaced = "reno";
  if (transport == "tcp" &&
      ::setsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size()) != 0) {
    return SystemError("TCP_CONGESTION");
  }
  return socket;
}

Status Tune(const RawSocket& socket, const std::string& transport) {
  const int on = 1;
  const int handle = socket.handle();
  if (transport == "tcp" && ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return SystemError("TCP_NODELAY");
  }
  for (const auto& [option, bytes] :
       {std::pair(SO_SNDBUF, kSendBufferBytes), std::pair(SO_RCVBUF, kReceiveBufferBytes)}) {
    if (::setsockopt(handle, SOL_SOCKET, option, &bytes, sizeof(bytes)) != 0) {
      return SystemError("socket buffers");
    }
  }
  return absl::OkStatus();
}

StatusOr<std::string> BoundAddress(const RawSocket& listener, const std::string& address) {
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  if (::getsockname(listener.handle(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return SystemError("getsockname");
  }
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", ntohs(bound.sin_port));
}

}  // namespace

Status SystemError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

RawSocket::RawSocket(RawSocket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

RawSocket::~RawSocket() {
  if (handle_ >= 0) ::close(handle_);
}

StatusOr<RawSocket> RawSocket::AcceptOne(const std::string& transport, const std::string& address,
                                         const std::function<void(const std::string&)>& listening) {
  SIMURGH_ASSIGN_OR_RETURN(const Endpoint endpoint, EndpointOf(transport, address));
  SIMURGH_ASSIGN_OR_RETURN(const RawSocket listener, NewSocket(transport));
  if (::bind(listener.handle(), &endpoint.any, endpoint.size) != 0) return SystemError("bind");
  if (::listen(listener.handle(), 1) != 0) return SystemError("listen");
  std::string chosen = address;
  if (transport == "tcp") {
    SIMURGH_ASSIGN_OR_RETURN(chosen, BoundAddress(listener, address));
  }
  listening(chosen);
  RawSocket socket(::accept(listener.handle(), nullptr, nullptr));
  if (socket.handle() < 0) return SystemError("accept");
  SIMURGH_RETURN_IF_ERROR(Tune(socket, transport));
  return socket;
}

StatusOr<RawSocket> RawSocket::Connect(const std::string& transport, const std::string& address) {
  SIMURGH_ASSIGN_OR_RETURN(const Endpoint endpoint, EndpointOf(transport, address));
  SIMURGH_ASSIGN_OR_RETURN(RawSocket socket, NewSocket(transport));
  if (::connect(socket.handle(), &endpoint.any, endpoint.size) != 0) return SystemError("connect");
  SIMURGH_RETURN_IF_ERROR(Tune(socket, transport));
  return socket;
}

}  // namespace simurgh::bench
