#pragma once

#include <string>

namespace simurgh::testing {

// Returns the response to GET http://<address><path> with its headers; empty after an error.
// Requires: `address` is "host:port" with numbers.
std::string HttpGet(const std::string& address, const std::string& path);

}  // namespace simurgh::testing
