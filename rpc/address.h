#pragma once

#include <cstdint>
#include <string>

#include "simurgh/base/status.h"

namespace simurgh::rpc {

// Where a server listens.
//
//   tcp://host:port    TCP; "host:port" alone means the same. IPv6 in brackets: [::1]:7000.
//   unix:///path       a Unix socket
//   shm:///path        a Unix socket at this path over which both ends agree on shared memory
//   auto://host:port   TCP, and shared memory between ends on one host
struct Address {
  enum class Kind { kTcp, kUnix, kSharedMemory, kAuto };
  Kind kind = Kind::kTcp;
  std::string host = {};  // A name, an IPv4 or an IPv6 address without brackets. kTcp and kAuto.
  uint16_t port = 0;      // kTcp and kAuto; 0 lets a server take any.
  std::string path = {};  // Absolute, at most 107 bytes. kUnix and kSharedMemory.

  bool may_share() const { return kind == Kind::kSharedMemory || kind == Kind::kAuto; }
  bool has_path() const { return kind == Kind::kUnix || kind == Kind::kSharedMemory; }

  bool operator==(const Address&) const = default;
};

// Errors: INVALID_ARGUMENT.
StatusOr<Address> ParseAddress(const std::string& text);

// What ParseAddress reads as this address; without a scheme for TCP.
std::string ToString(const Address& address);

}  // namespace simurgh::rpc
