#include "rpc/call.h"

#include <iterator>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace simurgh::rpc {
namespace {

constexpr std::string_view kNames[] = {
    "malformed",        "tls",    "refused", "no_hello",    "crowd", "connections",
    "host_connections", "window", "stalled", "not_reading", "memory"};
static_assert(std::size(kNames) == kCloseReasons);

constexpr std::string_view kThrottleNames[] = {"requests", "answers", "turn", "memory", "accept"};
static_assert(std::size(kThrottleNames) == kThrottleReasons);

constexpr char kPayload[] = "simurgh/close_reason";

}  // namespace

std::string_view NameOf(ThrottleReason reason) {
  return kThrottleNames[static_cast<size_t>(reason)];
}

std::string_view NameOf(CloseReason reason) { return kNames[static_cast<size_t>(reason)]; }

Status WithCloseReason(Status status, CloseReason reason) {
  const std::string number = absl::StrCat(static_cast<uint32_t>(reason));
  status.SetPayload(kPayload, absl::Cord(absl::string_view(number)));
  return status;
}

std::optional<CloseReason> CloseReasonOf(const Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  uint32_t number = kCloseReasons;
  if (payload && absl::SimpleAtoi(std::string(*payload), &number) && number < kCloseReasons) {
    return static_cast<CloseReason>(number);
  }
  if (absl::IsDataLoss(status)) return CloseReason::kMalformed;
  return std::nullopt;
}

}  // namespace simurgh::rpc
