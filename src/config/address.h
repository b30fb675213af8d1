#pragma once

#include <string>

namespace simurgh {

// What is wrong with an address, or nothing. "host:port" ([...]:port for IPv6), the port from 0
// (any free one) to 65535; where `allow_schemes`, also tcp://host:port, auto://host:port,
// unix:///path and shm:///path.
std::string AddressProblem(const std::string& address, bool allow_schemes);

// The host and port or the path: what two daemons cannot share.
std::string WithoutScheme(const std::string& address);

// Whether the operating system chooses the port, so that equal addresses do not clash.
bool HasAnyPort(const std::string& address);

}  // namespace simurgh
