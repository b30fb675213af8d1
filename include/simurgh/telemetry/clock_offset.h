#pragma once

#include <algorithm>
#include <chrono>
#include <span>

#include "simurgh/base/check.h"

namespace simurgh {

// One reading of another process's clock.
struct ClockSample {
  std::chrono::nanoseconds sent{};      // Own clock, before the request.
  std::chrono::nanoseconds read{};      // The other clock, at a time in between.
  std::chrono::nanoseconds received{};  // Own clock, after the answer.
};

struct ClockOffset {
  std::chrono::nanoseconds offset{};  // Own time less the other clock's time.
  std::chrono::nanoseconds error{};   // At most.
};

// The middle of the shortest round trip, as in NTP: whatever the two ways take, the error is at
// most half of it. Requires samples of one clock.
inline ClockOffset EstimateClockOffset(std::span<const ClockSample> samples) {
  SIMURGH_CHECK(!samples.empty());
  const ClockSample& best = *std::ranges::min_element(
      samples, {}, [](const ClockSample& sample) { return sample.received - sample.sent; });
  const std::chrono::nanoseconds trip = best.received - best.sent;
  return {.offset = best.sent + trip / 2 - best.read, .error = (trip + trip % 2) / 2};
}

}  // namespace simurgh
