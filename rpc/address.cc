#include "rpc/address.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace simurgh::rpc {
namespace {

// sockaddr_un::sun_path without its final zero.
constexpr size_t kMaxPathBytes = 107;

constexpr std::string_view kSchemes[] = {"tcp", "unix", "shm", "auto"};  // Indexed by Kind.

Status BadAddress(const std::string& text, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address '", text, "': ", why,
                   "; use host:port, tcp://host:port, unix:///path, shm:///path or "
                   "auto://host:port"));
}

// Returns null or the error.
const char* ReadPath(const std::string& path, Address& address) {
  if (!path.starts_with('/')) return "the path is not absolute";
  if (path.size() > kMaxPathBytes) return "the path has more than 107 bytes";
  address.path = path;
  return nullptr;
}

const char* ReadHostAndPort(const std::string& text, Address& address) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return "no port";
  std::string host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) return "no host";
  if (!bracketed && host.find(':') != std::string::npos) return "an IPv6 address needs brackets";
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 0xffff) {
    return "the port is not a number from 0 to 65535";
  }
  address.host = std::move(host);
  address.port = static_cast<uint16_t>(port);
  return nullptr;
}

}  // namespace

StatusOr<Address> ParseAddress(const std::string& text) {
  Address address;
  std::string rest = text;
  if (const size_t end = text.find("://"); end != std::string::npos) {
    const auto* const scheme = std::ranges::find(kSchemes, text.substr(0, end));
    if (scheme == std::end(kSchemes)) return BadAddress(text, "unknown scheme");
    address.kind = static_cast<Address::Kind>(scheme - kSchemes);
    rest = text.substr(end + 3);
  }
  const char* const problem =
      address.has_path() ? ReadPath(rest, address) : ReadHostAndPort(rest, address);
  if (problem != nullptr) return BadAddress(text, problem);
  return address;
}

std::string ToString(const Address& address) {
  const bool tcp = address.kind == Address::Kind::kTcp;
  const auto kind = static_cast<size_t>(address.kind);
  const std::string scheme = tcp ? "" : std::string(kSchemes[kind]) + "://";
  if (address.has_path()) return scheme + address.path;
  const bool v6 = address.host.find(':') != std::string::npos;
  const std::string host = v6 ? absl::StrCat("[", address.host, "]") : address.host;
  return absl::StrCat(scheme, host, ":", address.port);
}

}  // namespace simurgh::rpc
