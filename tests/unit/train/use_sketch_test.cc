#include "train/use_sketch.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"

namespace simurgh {
namespace {

TEST_CASE("Counts of uses are never too low, and seldom too high", "[kept]") {
  constexpr size_t kKeys = 2'000;
  UseSketch sketch(8 * kKeys);
  std::vector<uint8_t> uses(kKeys);
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t key = random.Below(1 + random.Below(kKeys));
    const uint8_t told = sketch.Add(Mix64(key));
    ++uses[key];
    REQUIRE(told == sketch.Of(Mix64(key)));
  }
  size_t too_high = 0;
  for (size_t key = 0; key < kKeys; ++key) {
    const uint8_t told = sketch.Of(Mix64(key));
    REQUIRE(told >= std::min(uses[key], UseSketch::kMax));
    if (told > uses[key]) ++too_high;
  }
  CHECK(too_high < kKeys / 20);
  CHECK(sketch.Of(Mix64(kKeys + 1)) <= 1);
}

TEST_CASE("A count is halved, raised, and ends at the most", "[kept]") {
  UseSketch sketch(1);
  const uint64_t key = Mix64(5);
  CHECK(sketch.Of(key) == 0);
  CHECK(sketch.Add(key) == 1);
  sketch.Raise(key, 9);
  CHECK(sketch.Of(key) == 9);
  sketch.Raise(key, 3);
  CHECK(sketch.Of(key) == 9);
  sketch.Halve();
  CHECK(sketch.Of(key) == 4);
  for (int i = 0; i < 1'000; ++i) sketch.Add(key);
  CHECK(sketch.Of(key) == UseSketch::kMax);
}

}  // namespace
}  // namespace simurgh
