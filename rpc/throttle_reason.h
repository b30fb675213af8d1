#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simurgh::rpc {

// Why an end delays reading from a peer or accepting one.
enum class ThrottleReason : uint8_t {
  kRequests,  // Too many unanswered requests.
  kAnswers,   // Too many unread bytes of answers.
  kTurn,      // The peer sends without a pause; other connections are served first.
  kMemory,    // Peers take all memory for requests and answers.
  kAccept,    // File descriptors or memory are short.
};
inline constexpr size_t kThrottleReasons = 5;

// For metrics: "requests".
std::string_view NameOf(ThrottleReason reason);

}  // namespace simurgh::rpc
