#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/support/rpc/proxy.h"

namespace simurgh::rpc::testing {
namespace {

using Line = DelayLine<int>;
using std::chrono::microseconds;

constexpr double kBytesPerSecond = 1e6;  // A byte takes a microsecond.

TEST_CASE("A packet leaves an idle line after serialization and delay") {
  Line line(microseconds(1'000), kBytesPerSecond, 1'000);
  const Line::Clock::time_point start{};
  CHECK_FALSE(line.due().has_value());
  REQUIRE(line.Push(start, 100, 7));
  CHECK(line.due() == start + microseconds(1'100));
  CHECK(line.Pop() == 7);
  CHECK_FALSE(line.due().has_value());
}

TEST_CASE("A full line drops new packets only") {
  Line line(microseconds(0), kBytesPerSecond, 250);
  REQUIRE(line.Push({}, 200, 1));
  CHECK_FALSE(line.Push({}, 51, 2));
  REQUIRE(line.Push({}, 50, 3));
  CHECK(line.Pop() == 1);
  CHECK(line.Push({}, 51, 4));
  CHECK(line.Pop() == 3);
  CHECK(line.Pop() == 4);
}

TEST_CASE("Order, rate and delay hold for any arrivals") {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    const microseconds delay(random.Below(2'000));
    Line line(delay, kBytesPerSecond, size_t{1} << 30);
    Line::Clock::time_point now{};
    Line::Clock::time_point sent{};  // Brute force: the end of serialization so far.
    std::vector<Line::Clock::time_point> expected;
    for (int i = 0; i < 200; ++i) {
      now += microseconds(random.Below(300));
      const size_t bytes = random.Below(400);
      sent = std::max(sent, now) + microseconds(bytes);
      expected.push_back(sent + delay);
      REQUIRE(line.Push(now, bytes, i));
    }
    for (int i = 0; i < 200; ++i) {
      const auto difference = *line.due() - expected[i];
      CHECK(std::chrono::abs(difference) <= microseconds(1));  // Rounding to nanoseconds.
      CHECK(line.Pop() == i);
    }
  }
}

}  // namespace
}  // namespace simurgh::rpc::testing
