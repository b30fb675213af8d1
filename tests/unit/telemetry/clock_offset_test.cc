#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

using std::chrono::nanoseconds;

// A round trip at `time` of the own clock to a clock that is `offset` behind.
ClockSample Trip(int64_t time, int64_t offset, int64_t out, int64_t back) {
  return {.sent = nanoseconds(time),
          .read = nanoseconds(time + out - offset),
          .received = nanoseconds(time + out + back)};
}

TEST_CASE("equal ways give the exact offset, and the shortest trip counts") {
  const std::vector<ClockSample> samples{Trip(0, 5'000, 900, 100), Trip(2'000, 5'000, 40, 40),
                                         Trip(9'000, 5'000, 10, 190)};
  const ClockOffset clock = EstimateClockOffset(samples);
  CHECK(clock.offset == nanoseconds(5'000));
  CHECK(clock.error == nanoseconds(40));
}

TEST_CASE("a way that takes all the time makes the largest error") {
  for (const auto& [out, back] : {std::pair<int64_t, int64_t>{100, 0}, {0, 100}, {0, 101}}) {
    CAPTURE(out, back);
    const ClockOffset clock = EstimateClockOffset(std::vector{Trip(7, -3, out, back)});
    CHECK(clock.error == nanoseconds((out + back + 1) / 2));
    CHECK(std::chrono::abs(clock.offset - nanoseconds(-3)) <= clock.error);
  }
}

TEST_CASE("the error is at most half of the shortest round trip") {
  const uint64_t seed = 20'260'704;
  CAPTURE(seed);
  Random random(seed);
  const auto up_to = [&](uint64_t limit) { return static_cast<int64_t>(random.Below(limit)); };
  for (int round = 0; round < 10'000; ++round) {
    const int64_t offset = up_to(2'000'000'000'000) - 1'000'000'000'000;
    std::vector<ClockSample> samples;
    nanoseconds shortest = nanoseconds::max();
    int64_t time = up_to(1'000'000'000'000);
    for (int64_t trips = 1 + up_to(8); trips > 0; --trips) {
      samples.push_back(Trip(time, offset, up_to(1'000'000), up_to(1'000'000)));
      shortest = std::min(shortest, samples.back().received - samples.back().sent);
      time += up_to(10'000'000);
    }
    const ClockOffset clock = EstimateClockOffset(samples);
    REQUIRE(clock.error == (shortest + nanoseconds(1)) / 2);
    REQUIRE(std::chrono::abs(clock.offset - nanoseconds(offset)) <= clock.error);
  }
}

}  // namespace
}  // namespace simurgh
