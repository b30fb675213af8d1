#include "rpc/local_socket.h"

#include <algorithm>
#include <memory>

#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/local/stream_protocol.hpp>

namespace simurgh::rpc {
namespace {

using asio::ip::tcp;

std::string Name(const asio::ip::address& address, uint16_t port) {
  const std::string host = address.to_string();
  return address.is_v6() ? absl::StrCat("simurgh-rpc/[", host, "]:", port)
                         : absl::StrCat("simurgh-rpc/", host, ":", port);
}

asio::ip::address AddressOf(const sockaddr& raw) {
  if (raw.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(raw);
    return asio::ip::address_v4(ntohl(v4.sin_addr.s_addr));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(raw);
  asio::ip::address_v6::bytes_type bytes;
  std::copy(std::begin(v6.sin6_addr.s6_addr), std::end(v6.sin6_addr.s6_addr), bytes.begin());
  return asio::ip::address_v6(bytes, v6.sin6_scope_id);
}

bool IsOnThisHost(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (AddressOf(*entry->ifa_addr) == address) return true;
  }
  return false;
}

}  // namespace

std::string LocalName(const tcp::endpoint& bound) { return Name(bound.address(), bound.port()); }

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name) {
  return asio::local::stream_protocol::endpoint(std::string(1, '\0') + name);
}

std::vector<std::string> LocalNames(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  if (!IsOnThisHost(address)) return {};
  std::vector<std::string> names{LocalName(endpoint)};
  // A server bound to all IPv6 addresses accepts IPv4, too.
  if (address.is_v4()) names.push_back(Name(asio::ip::address_v4::any(), endpoint.port()));
  names.push_back(Name(asio::ip::address_v6::any(), endpoint.port()));
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
