#include <catch2/catch.hpp>

#include "rpc/timers.h"

namespace simurgh::rpc {
namespace {

using std::chrono_literals::operator""s;

TEST_CASE("a flow is stalled if it is expected to progress and does not") {
  FlowWatch watch;
  const Clock::time_point start = Clock::now();
  Flow flow{.expected = false, .rounds = 4, .bytes = 1'000'000};
  const auto still = [&](Clock::duration after) {
    return watch.IsStalled(flow, start + after, 30s);
  };
  SECTION("never while nothing is expected") {
    for (int i = 0; i < 10; ++i) CHECK_FALSE(still(i * 20s));
  }
  SECTION("from the first look at which it is expected") {
    CHECK_FALSE(still(0s));
    flow.expected = true;
    CHECK_FALSE(still(100s));
    CHECK_FALSE(still(129s));
    CHECK(still(130s));
  }
  SECTION("also while it trickles, but not when it moves or ends a round") {
    flow.expected = true;
    CHECK_FALSE(still(0s));
    flow.bytes += FlowWatch::kMinBytes - 1;
    CHECK_FALSE(still(29s));
    CHECK(still(30s));
    flow.bytes += 1;
    CHECK_FALSE(still(31s));
    CHECK_FALSE(still(60s));
    flow.rounds += 1;
    CHECK_FALSE(still(61s));
    CHECK_FALSE(still(90s));
    CHECK(still(91s));
  }
  SECTION("not after a pause that was nobody's fault") {
    flow.expected = true;
    CHECK_FALSE(still(0s));
    flow.expected = false;
    CHECK_FALSE(still(29s));
    flow.expected = true;
    CHECK_FALSE(still(58s));
    CHECK_FALSE(still(87s));
    CHECK(still(88s));
  }
}

TEST_CASE("a flow is sampled several times per timeout") {
  const Clock::time_point now = Clock::now();
  CHECK(FlowWatch::NextSample(now, 4s) == now + 1s);
  CHECK(FlowWatch::NextSample(now, Clock::duration::max()) <= now + std::chrono::minutes(1));
}

}  // namespace
}  // namespace simurgh::rpc
