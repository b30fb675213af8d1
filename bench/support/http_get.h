#pragma once

#include <string>

namespace simurgh::bench {

// The whole answer, headers included, to GET http://<host>:<port><path>; empty when nobody answers.
// address: "host:port" with numbers.
std::string HttpGet(const std::string& address, const std::string& path);

}  // namespace simurgh::bench
