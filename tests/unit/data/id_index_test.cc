#include "data/batch/id_index.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"

namespace simurgh {
namespace {

TEST_CASE("Ids are numbered as a map would, through growth and clearing") {
  const uint64_t seed = GENERATE(range(1, 21));
  INFO("seed " << seed);
  Random random(seed);
  IdIndex index;
  std::unordered_map<uint64_t, uint32_t> numbers;
  std::vector<uint64_t> order;
  for (int step = 0; step < 400; ++step) {
    if (random.Below(20) == 0) {
      index.Clear();
      numbers.clear();
      order.clear();
    }
    std::vector<uint64_t> ids(random.Below(3) == 0 ? random.Below(3) : random.Below(200));
    std::vector<uint32_t> expected;
    for (uint64_t& id : ids) {
      id = random.Below(3'000) * (random.Below(2) == 0 ? 1 : ~uint64_t{0} / 3'001);
      const auto [entry, added] = numbers.try_emplace(id, static_cast<uint32_t>(order.size()));
      if (added) order.push_back(id);
      expected.push_back(entry->second);
    }
    std::vector<uint32_t> actual(ids.size());
    index.Number(ids, actual);
    REQUIRE(actual == expected);
    REQUIRE(std::ranges::equal(index.ids(), order));
  }
}

// The word that Mix64 makes this one of.
uint64_t UnMix64(uint64_t mixed) {
  uint64_t x = mixed ^ (mixed >> 31) ^ (mixed >> 62);
  x *= 0x319642b2d24d8ec3ULL;
  x ^= (x >> 27) ^ (x >> 54);
  x *= 0x96de1b173f119089ULL;
  return x ^ (x >> 30) ^ (x >> 60);
}

TEST_CASE("Ids that were chosen to crowd around one slot do not") {
  constexpr size_t kIds = 1'000'000;  // 5e11 steps from slot to slot if they did: no end is seen.
  std::vector<uint64_t> ids(kIds);
  for (size_t i = 0; i < kIds; ++i) ids[i] = UnMix64(uint64_t{i} << 40);
  REQUIRE(Mix64(ids.back()) == uint64_t{kIds - 1} << 40);
  IdIndex index;
  std::vector<uint32_t> numbers(kIds);
  index.Number(ids, numbers);
  std::vector<uint32_t> expected(kIds);
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(numbers == expected);
  CHECK(std::ranges::equal(index.ids(), ids));
}

}  // namespace
}  // namespace simurgh
