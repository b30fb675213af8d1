#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/cpu/compute_threads.h"
#include "tests/support/waiting.h"

namespace simurgh::cpu {
namespace {

void Nothing() {}

TEST_CASE("a pool does each part once, piece after piece") {
  for (const size_t helpers : {0, 1, 3}) {
    ComputePool pool(helpers, Nothing);
    Random random(helpers);
    for (int piece = 0; piece < 2'000; ++piece) {
      // Not atomic: the pool orders a part's work before the end of Run.
      std::vector<int> visits(random.Below(9));
      pool.Run(visits.size(), [&](size_t part) { ++visits[part]; });
      CAPTURE(helpers, piece);
      REQUIRE(visits == std::vector<int>(visits.size(), 1));
    }
  }
}

TEST_CASE("helpers call on_start first") {
  static std::atomic<int> started = 0;
  started = 0;
  {
    const ComputePool pool(3, [] { ++started; });
  }
  CHECK(started == 3);
}

// The owner must hand parts over: the first two wait for each other.
TEST_CASE("helpers run parts while the owner runs one") {
  ComputePool pool(1, Nothing);
  std::atomic<int> within = 0;
  pool.Run(2, [&](size_t) {
    ++within;
    testing::Eventually([&] { return !(within < 2); });
  });
  CHECK(within == 2);
}

TEST_CASE("pools of several owners are independent") {
  std::vector<std::thread> owners;
  std::atomic<int> wrong = 0;
  for (size_t owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&wrong, owner] {
      ComputePool pool(2, Nothing);
      for (size_t piece = 0; piece < 500; ++piece) {
        std::vector<size_t> values(5);
        pool.Run(values.size(), [&](size_t part) { values[part] = owner + piece + part; });
        for (size_t part = 0; part < values.size(); ++part) {
          if (values[part] != owner + piece + part) ++wrong;
        }
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace simurgh::cpu
