#include "simurgh/feature/batch_plan.h"

#include <map>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {
namespace {

// Three features on two tables: the first and the last share table 1.
BatchLayout SharedTableLayout() {
  return {.features = {{1, 0}, {0, 4}, {1, 12}}, .table_dims = {8, 4}};
}

CompactBatch RandomBatch(Random& random, size_t features, size_t samples) {
  BatchBuilder builder(features, 0);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < features; ++f) {
      const uint64_t ids = random.Below(4);
      for (uint64_t i = 0; i < ids; ++i) builder.AddId(f, random.Below(50));
    }
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

TEST_CASE("The bucket map spreads ids evenly and covers every slot") {
  for (const uint32_t servers : {1U, 2U, 3U, 7U}) {
    const BucketMap map(servers, 3);
    std::map<uint32_t, int> ids_of_slot;
    for (uint64_t id = 0; id < 30'000; ++id) ++ids_of_slot[map.SlotOf(id)];
    REQUIRE(ids_of_slot.size() == map.slots());
    const double mean = 30'000.0 / map.slots();
    for (const auto& [slot, ids] : ids_of_slot) {
      CHECK(slot < servers * 3);
      CHECK(ids == Approx(mean).margin(0.15 * mean));
    }
  }
}

TEST_CASE("Another number of servers moves buckets, never ids between buckets") {
  const BucketMap two(2, 2);
  const BucketMap three(3, 2);
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> slots_of_bucket;
  for (uint64_t id = 0; id < 200'000; ++id) {
    const std::pair slots{two.SlotOf(id), three.SlotOf(id)};
    const auto [entry, is_new] = slots_of_bucket.try_emplace(BucketMap::BucketOf(id), slots);
    REQUIRE(entry->second == slots);
  }
}

TEST_CASE("A plan holds each (table, id) once, at its owner, and points every id at its row") {
  const uint64_t seed = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(seed);
  Random random(seed);
  const BatchLayout layout = SharedTableLayout();
  const BucketMap map(1 + static_cast<uint32_t>(random.Below(3)), 2);
  const CompactBatch batch = RandomBatch(random, 3, 40);
  const BatchPlan plan = PlanBatch(batch, layout, map);

  // Read the plan in its own order: (table, id) by the float where its row begins.
  std::map<uint64_t, std::pair<uint32_t, uint64_t>> row_at;
  std::set<std::pair<uint32_t, uint64_t>> seen;
  size_t id = 0;
  uint64_t next_float = 0;
  REQUIRE(plan.servers.size() == map.servers());
  for (uint32_t server = 0; server < map.servers(); ++server) {
    const ServerShare& share = plan.servers[server];
    CHECK(share.first_id == id);
    CHECK(share.first_float == next_float);
    for (const RowGroup& group : share.groups) {
      CHECK(group.dim == layout.table_dims[group.table]);
      REQUIRE(group.counts.size() == map.partitions());
      for (uint32_t partition = 0; partition < map.partitions(); ++partition) {
        for (uint32_t i = 0; i < group.counts[partition]; ++i, ++id) {
          const uint64_t value = plan.ids.at(id);
          CHECK(map.SlotOf(value) == server * map.partitions() + partition);
          CHECK(seen.insert({group.table, value}).second);
          row_at[next_float] = {group.table, value};
          next_float += group.dim;
        }
      }
    }
    CHECK(share.first_id + share.id_count == id);
    CHECK(share.first_float + share.float_count == next_float);
  }
  CHECK(plan.ids.size() == id);
  CHECK(plan.row_floats == next_float);

  size_t position = 0;
  for (size_t f = 0; f < 3; ++f) {
    for (const uint64_t value : batch.feature(f).ids) {
      const auto row = row_at.find(plan.row_positions.at(position++));
      REQUIRE(row != row_at.end());
      CHECK(row->second == std::pair{layout.features[f].table, value});
    }
  }
  CHECK(position == plan.row_positions.size());
}

TEST_CASE("A batch without ids has an empty plan") {
  BatchBuilder builder(3, 0);
  builder.EndSample();
  const BatchPlan plan = PlanBatch(*builder.Build()->sparse, SharedTableLayout(), BucketMap(2, 2));
  CHECK(plan.ids.empty());
  CHECK(plan.row_floats == 0);
  for (const ServerShare& share : plan.servers) CHECK(share.groups.empty());
}

}  // namespace
}  // namespace simurgh
