#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh::rpc {

// Why an end closed a connection because of its peer.
enum class CloseReason : uint8_t {
  kMalformed,        // The peer broke the protocol.
  kTls,              // TLS handshake: one end does not trust the other, or does not use TLS.
  kRefused,          // The HELLOs do not match.
  kNoHello,          // No HELLO in time.
  kCrowd,            // No HELLO, or no call for long, and newer ones need the place.
  kConnections,      // Limit of connections.
  kHostConnections,  // Limit of connections per host.
  kWindow,           // Requests exceed the window.
  kStalled,          // A frame or chunked message makes no progress.
  kNotReading,       // Answers remain unread.
  kMemory,           // Takes most of the memory that requests wait for in vain.
};
inline constexpr size_t kCloseReasons = 11;

// For metrics and logs: "malformed".
std::string_view NameOf(CloseReason reason);

// Attaches the reason to the status that closes a connection. It is not sent.
Status WithCloseReason(Status status, CloseReason reason);

// The attached reason; kMalformed for DATA_LOSS without one; else nullopt.
std::optional<CloseReason> CloseReasonOf(const Status& status);

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
