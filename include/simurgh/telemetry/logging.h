#pragma once

#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// Sends spdlog's default logger to stderr, one line per event: UTC time, level, service, thread and
// message. Control characters of a message become \n, \t or \xNN.
//
//   2026-01-31T12:00:00.123Z info  embedding-ps/0 partition-0: message
//
// service: a daemon's kind and index. level: trace, debug, info, warn, error or off. Errors:
// INVALID_ARGUMENT for another level. Threads: call once in main, before other threads start; any
// thread may log.
Status InitLogging(std::string_view service, std::string_view level);

}  // namespace simurgh
