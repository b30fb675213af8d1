#pragma once

#include <string_view>

#include "base/status.h"

namespace simurgh {

// Sends spdlog's default logger to stderr, one line per event: UTC time, level, service, thread and
// message. Control characters of a message become \n, \t or \xNN.
//
//   2026-01-31T12:00:00.123Z info  embedding-ps/0 partition-0: message
//   {"time":"2026-01-31T12:00:00.123Z","level":"info","service":"embedding-ps/0",
//    "thread":"partition-0","message":"message"}
//
// service: a daemon's kind and index. level: trace, debug, info, warn, error or off. format: text
// or json, on one line. Errors: INVALID_ARGUMENT for another level or format, as of a flag.
// Threads: call once in main, before other threads start; any thread may log.
Status InitLogging(std::string_view service, std::string_view level,
                   std::string_view format = "text");

}  // namespace simurgh
