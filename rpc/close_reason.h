#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh::rpc {

// Why an end hung up on a peer that had not asked for it.
enum class CloseReason : uint8_t {
  kMalformed,        // It broke the protocol: garbage, wrong sizes, frames out of turn.
  kTls,              // It did not prove who it is, does not trust us, or speaks no TLS.
  kRefused,          // Its HELLO does not fit ours.
  kNoHello,          // It did not introduce itself in time.
  kCrowd,            // It had not introduced itself, and more newcomers came than there may be.
  kConnections,      // There are as many connections as there may be;
  kHostConnections,  // as its host may have.
  kWindow,           // It sends requests beyond the window that it was told.
  kStalled,          // It stopped in the middle of a frame or of a message in chunks.
  kNotReading,       // It leaves its answers unread.
};
inline constexpr size_t kCloseReasons = 10;

// For metrics and logs: "malformed".
std::string_view NameOf(CloseReason reason);

// Marks the reason for which a connection is closed. The mark stays on this machine.
Status WithCloseReason(Status status, CloseReason reason);

// Nothing when the status is no reason of ours. DATA_LOSS without a mark is kMalformed.
std::optional<CloseReason> CloseReasonOf(const Status& status);

}  // namespace simurgh::rpc
