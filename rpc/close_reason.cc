#include "rpc/close_reason.h"

#include <iterator>
#include <utility>

#include "rpc/control.h"
#include "rpc/status_number.h"
#include "rpc/throttle_reason.h"

namespace simurgh::rpc {
namespace {

constexpr std::string_view kNames[] = {"malformed", "tls",         "refused",          "no_hello",
                                       "crowd",     "connections", "host_connections", "window",
                                       "stalled",   "not_reading"};
static_assert(std::size(kNames) == kCloseReasons);

constexpr std::string_view kThrottleNames[] = {"requests", "answers", "window", "turn", "accept"};
static_assert(std::size(kThrottleNames) == kThrottleReasons);

}  // namespace

std::string_view NameOf(ThrottleReason reason) {
  return kThrottleNames[static_cast<size_t>(reason)];
}

std::string_view NameOf(CloseReason reason) { return kNames[static_cast<size_t>(reason)]; }

Status WithCloseReason(Status status, CloseReason reason) {
  return WithNumber(std::move(status), kCutPayload, static_cast<uint32_t>(reason));
}

std::optional<CloseReason> CloseReasonOf(const Status& status) {
  const uint32_t number = NumberOf(status, kCutPayload, kCloseReasons);
  if (number < kCloseReasons) return static_cast<CloseReason>(number);
  if (absl::IsDataLoss(status)) return CloseReason::kMalformed;
  return std::nullopt;
}

}  // namespace simurgh::rpc
