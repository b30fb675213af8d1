#include "data/id_index.h"

#include <unordered_map>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

TEST_CASE("Ids are numbered as a map would, through growth, truncation and clearing") {
  const uint64_t seed = GENERATE(range(1, 21));
  INFO("seed " << seed);
  Random random(seed);
  IdIndex index;
  std::unordered_map<uint64_t, uint32_t> numbers;
  std::vector<uint64_t> order;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t choice = random.Below(1'000);
    if (choice == 0) {
      index.Clear();
      numbers.clear();
      order.clear();
    } else if (choice < 20) {
      const size_t size = order.size() - random.Below(std::min<size_t>(order.size(), 30) + 1);
      index.Truncate(size);
      for (; order.size() > size; order.pop_back()) numbers.erase(order.back());
    } else {
      const uint64_t id = random.Below(3'000) * (random.Below(2) == 0 ? 1 : ~uint64_t{0} / 3'001);
      const auto [entry, added] = numbers.try_emplace(id, static_cast<uint32_t>(order.size()));
      if (added) order.push_back(id);
      REQUIRE(index.Insert(id) == entry->second);
    }
    REQUIRE(index.ids().size() == order.size());
  }
  CHECK(index.ids() == order);
}

}  // namespace
}  // namespace simurgh
