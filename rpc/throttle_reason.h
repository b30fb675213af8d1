#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simurgh::rpc {

// Why an end reads on from a peer, or lets peers in, only later.
enum class ThrottleReason : uint8_t {
  kRequests,  // It has as many requests unanswered as it may.
  kAnswers,   // It leaves too many bytes of answers unread.
  kTurn,      // It sends without a pause, and others have their turn.
  kAccept,    // It wants to be let in while file descriptors or memory are short.
};
inline constexpr size_t kThrottleReasons = 4;

// For metrics: "requests".
std::string_view NameOf(ThrottleReason reason);

}  // namespace simurgh::rpc
