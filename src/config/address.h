#pragma once

#include <string>

namespace simurgh {

// The problem of an address, or an empty string. Valid are "host:port" ([...]:port for IPv6; port
// 0: any free one) and, with `allow_schemes`, URLs of tcp, auto, unix and shm.
std::string AddressProblem(const std::string& address, bool allow_schemes);

// Host and port or path, which two daemons cannot share.
std::string WithoutScheme(const std::string& address);

// Whether the host is a number of no loopback address, so that other machines may reach it. False
// for names.
bool IsOpenAddress(const std::string& address);

// Whether the port is 0, so that equal addresses do not conflict.
bool HasAnyPort(const std::string& address);

}  // namespace simurgh
