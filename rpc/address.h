#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace simurgh::rpc {

// The address of a server.
//
//   tcp://host:port    TCP; also without the scheme. IPv6 in brackets: [::1]:7000.
//   unix:///path       a Unix socket
//   shm:///path        a Unix socket; both ends agree on shared memory
//   auto://host:port   TCP between hosts, a Unix socket and shared memory within one
struct Address {
  enum class Kind { kTcp, kUnix, kSharedMemory, kAuto };
  Kind kind = Kind::kTcp;
  std::string host = {};  // kTcp and kAuto: a name, an IPv4 or an IPv6 address without brackets.
  uint16_t port = 0;      // kTcp and kAuto; with 0 the server chooses a free one.
  std::string path = {};  // kUnix and kSharedMemory: absolute, at most 107 bytes.

  bool may_share() const { return kind == Kind::kSharedMemory || kind == Kind::kAuto; }
  bool has_path() const { return kind == Kind::kUnix || kind == Kind::kSharedMemory; }

  bool operator==(const Address&) const = default;
};

// Errors: INVALID_ARGUMENT.
StatusOr<Address> ParseAddress(const std::string& text);

// The inverse of ParseAddress; TCP addresses have no scheme.
std::string ToString(const Address& address);

}  // namespace simurgh::rpc
