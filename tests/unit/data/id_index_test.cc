#include "data/id_index.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

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

}  // namespace
}  // namespace simurgh
