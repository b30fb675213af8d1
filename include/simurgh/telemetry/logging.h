#pragma once

#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// Sends spdlog's default logger to stderr, one line an event whatever the message holds:
//
//   2026-01-31T12:00:00.123Z info  embedding-ps partition-0: message
//
// which is UTC time, level, service, name of the thread, message; control characters in a message
// are written as \n, \t, \xNN. Code then logs through spdlog (spdlog::info(...)).
//
// level: trace, debug, info, warn, error or off.
// Errors: INVALID_ARGUMENT for another level, and nothing changes.
// Threads: once, from main, before other threads start; logging itself from any thread.
Status InitLogging(std::string_view service, std::string_view level);

}  // namespace simurgh
