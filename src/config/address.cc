#include "config/address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "config/scalar.h"

namespace simurgh {
namespace {

constexpr char kUnixPrefix[] = "unix:";
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

}  // namespace

std::string AddressProblem(const std::string& address, bool allow_unix) {
  if (address.starts_with(kUnixPrefix)) {
    if (!allow_unix) return absl::StrCat("'", address, "' is a Unix socket");
    const std::string path = address.substr(sizeof(kUnixPrefix) - 1);
    if (!path.starts_with('/')) return absl::StrCat("the path '", path, "' is not absolute");
    if (path.size() > kMaxUnixPath) {
      return absl::StrCat("the path has ", path.size(), " bytes, more than ", kMaxUnixPath);
    }
    return "";
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::StrCat("'", address, "' has no port");
  if (!IsHost(address.substr(0, colon))) return absl::StrCat("'", address, "' has no valid host");
  uint64_t port = 0;
  const NumberFault fault = ParseUnsigned(address.substr(colon + 1), &port);
  if (fault == NumberFault::kNotANumber) {
    return absl::StrCat("the port of '", address, "' is not a number");
  }
  if (fault == NumberFault::kOutOfRange || port > kMaxPort) {
    return absl::StrCat("the port of '", address, "' is above ", kMaxPort, " or below 0");
  }
  return "";
}

bool HasAnyPort(const std::string& address) {
  uint64_t port = 1;
  const size_t colon = address.rfind(':');
  return !address.starts_with(kUnixPrefix) && colon != std::string::npos &&
         ParseUnsigned(address.substr(colon + 1), &port) == NumberFault::kNone && port == 0;
}

}  // namespace simurgh
