#include "rpc/local_socket.h"

#include <cstring>
#include <memory>

#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>

#include "rpc/address.h"

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

}  // namespace simurgh::rpc
