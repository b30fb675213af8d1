#include "config/address.h"

#include <algorithm>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "config/map_reader.h"

namespace simurgh {
namespace {

constexpr char kSchemeEnd[] = "://";
constexpr size_t kMaxUnixPath =
    99;                           // sockaddr_un holds 107 bytes and a zero on Linux, 103 elsewhere.
constexpr size_t kMaxHost = 253;  // DNS, RFC 1035.
constexpr uint64_t kMaxPort = 65'535;

bool IsHost(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string inner = bracketed ? host.substr(1, host.size() - 2) : host;
  const auto allowed = [bracketed](unsigned char c) {
    return bracketed ? absl::ascii_isxdigit(c) || c == ':' || c == '.'
                     : absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  };
  return !inner.empty() && inner.size() <= kMaxHost &&
         std::all_of(inner.begin(), inner.end(), allowed);
}

// Returns "tcp" for "tcp://...", and "" for an address without a scheme.
std::string SchemeOf(const std::string& address) {
  const size_t end = address.find(kSchemeEnd);
  return end == std::string::npos ? "" : address.substr(0, end);
}

std::string PathProblem(const std::string& path) {
  if (!path.starts_with('/')) return absl::StrCat("the path '", path, "' is not absolute");
  if (path.size() <= kMaxUnixPath) return "";
  return absl::StrCat("the path has ", path.size(), " bytes, more than ", kMaxUnixPath);
}

std::string HostAndPortProblem(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::StrCat("'", address, "' has no port");
  if (!IsHost(address.substr(0, colon))) return absl::StrCat("'", address, "' has no valid host");
  uint64_t port = 0;
  const NumberFault fault = ParseUnsigned(address.substr(colon + 1), &port);
  if (fault == NumberFault::kNotANumber) {
    return absl::StrCat("the port of '", address, "' is not a number");
  }
  if (fault == NumberFault::kOutOfRange || port > kMaxPort) {
    return absl::StrCat("the port of '", address, "' is not from 0 to ", kMaxPort);
  }
  return "";
}

}  // namespace

std::string AddressProblem(const std::string& address, bool allow_schemes) {
  const std::string scheme = SchemeOf(address);
  if (scheme.empty()) return HostAndPortProblem(address);
  if (!allow_schemes) return absl::StrCat("'", address, "' has a scheme");
  if (scheme == "unix" || scheme == "shm") return PathProblem(WithoutScheme(address));
  if (scheme == "tcp" || scheme == "auto") return HostAndPortProblem(WithoutScheme(address));
  return absl::StrCat("'", scheme, "' is not a scheme");
}

std::string WithoutScheme(const std::string& address) {
  const size_t end = address.find(kSchemeEnd);
  return end == std::string::npos ? address : address.substr(end + sizeof(kSchemeEnd) - 1);
}

bool IsOpenAddress(const std::string& address) {
  const std::string place = WithoutScheme(address);
  std::string host = place.substr(0, place.rfind(':'));
  in_addr v4;
  if (inet_aton(host.c_str(), &v4) != 0) return ntohl(v4.s_addr) >> 24 != IN_LOOPBACKNET;
  if (host.size() < 2 || host.front() != '[') return false;
  host = host.substr(1, host.size() - 2);
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] != IN_LOOPBACKNET;
  return !IN6_IS_ADDR_LOOPBACK(&v6);
}

bool HasAnyPort(const std::string& address) {
  const std::string place = WithoutScheme(address);
  const size_t colon = place.rfind(':');
  uint64_t port = 1;
  return !place.starts_with('/') && colon != std::string::npos &&
         ParseUnsigned(place.substr(colon + 1), &port) == NumberFault::kNone && port == 0;
}

}  // namespace simurgh
