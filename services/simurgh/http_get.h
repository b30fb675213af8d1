#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

struct HttpAnswer {
  unsigned code = 0;  // 200
  std::string body;
  // After the connect and before the request; after the answer.
  std::chrono::steady_clock::time_point sent;
  std::chrono::steady_clock::time_point received;
};

struct HttpTarget {
  std::string address;  // "host:port"
  std::string path;
};

// GETs all targets at once, in order. A response has at most 64 MiB.
// Errors of one target: UNAVAILABLE, with the reason; DEADLINE_EXCEEDED after `timeout`, which does
// not limit the lookup of a name.
// Threads: any.
std::vector<StatusOr<HttpAnswer>> HttpGetAll(const std::vector<HttpTarget>& targets,
                                             std::chrono::milliseconds timeout);

}  // namespace simurgh
