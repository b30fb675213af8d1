#include "rpc/unix_socket.h"

#include <cstring>
#include <memory>
#include <utility>

#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>

#include "rpc/address.h"
#include "simurgh/base/check.h"

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

}  // namespace simurgh::rpc
