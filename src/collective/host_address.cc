#include "collective/host_address.h"

#include <memory>

#include <netdb.h>
#include <netinet/in.h>

namespace simurgh {
namespace {

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

}  // namespace

StatusOr<HostAddress> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return absl::InvalidArgumentError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  char number[NI_MAXHOST];
  const int unnamed = getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof(number),
                                  nullptr, 0, NI_NUMERICHOST);
  if (unnamed != 0) return absl::InvalidArgumentError(gai_strerror(unnamed));
  return HostAddress{number, IsLoopback(*found->ai_addr)};
}

}  // namespace simurgh
