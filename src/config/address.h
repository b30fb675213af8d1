#pragma once

#include <string>

namespace simurgh {

// The problem of an address, or an empty string. Valid are "host:port" ([...]:port for IPv6; port
// 0: any free one) and, with `allow_schemes`, URLs of tcp, auto, unix and shm.
std::string AddressProblem(const std::string& address, bool allow_schemes);

// Returns the host and port, or the path, of an address. Two daemons cannot share it.
std::string WithoutScheme(const std::string& address);

// Returns whether the host is an IP address outside loopback, which other machines may reach.
// Returns false for names.
bool IsOpenAddress(const std::string& address);

// Returns whether the port is 0, so that equal addresses do not conflict.
bool HasAnyPort(const std::string& address);

}  // namespace simurgh
