#include <set>

#include <catch2/catch.hpp>

#include "rpc/timers.h"

namespace simurgh::rpc {
namespace {

using std::chrono_literals::operator""ms;

TEST_CASE("pauses double up to a maximum, with jitter of up to a half") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Backoff backoff(20ms, 100ms);
    for (const auto due : {20ms, 40ms, 80ms, 100ms, 100ms}) {
      const Clock::duration pause = backoff.Next(random);
      CHECK(pause >= due / 2);
      CHECK(pause <= due);
    }
    backoff.Reset();
    CHECK(backoff.Next(random) <= 20ms);
  }
}

TEST_CASE("clients that lose a server together reconnect at different times") {
  constexpr size_t kClients = 100;
  std::set<Clock::duration> pauses;
  for (uint64_t seed = 0; seed < kClients; ++seed) {
    Random random(seed);
    pauses.insert(Backoff(20ms, 100ms).Next(random));
  }
  CHECK(pauses.size() > kClients / 2);
}

}  // namespace
}  // namespace simurgh::rpc
