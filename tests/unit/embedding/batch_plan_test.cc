#include "embedding/batch_plan.h"

#include <map>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

BatchPlan PlanOf(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map) {
  PlanScratch scratch;
  BatchPlan plan;
  PlanBatch(batch, layout, map, scratch, plan);
  return plan;
}

// Three features on two tables: the first and the last share table 1.
BatchLayout SharedTableLayout() {
  return {.features = {{1, 0}, {0, 4}, {1, 12}}, .table_dims = {8, 4}};
}

CompactBatch RandomBatch(Random& random, const std::vector<uint32_t>& lists, size_t samples) {
  const size_t features = lists.size();
  BatchBuilder builder(lists, 0);
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
  const std::vector<uint32_t> lists =
      GENERATE(values<std::vector<uint32_t>>({{0, 1, 2}, {0, 1, 0}}));
  const CompactBatch batch = RandomBatch(random, lists, 40);
  REQUIRE(CheckLists(batch, layout).ok());
  const BatchPlan plan = PlanOf(batch, layout, map);

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

  CHECK(plan.row_positions.size() == batch.ids.size());
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = batch.feature(f);
    size_t position = feature.first_id;
    for (const uint64_t value : feature.ids) {
      const auto row = row_at.find(plan.row_positions.at(position++));
      REQUIRE(row != row_at.end());
      CHECK(row->second == std::pair{layout.features[f].table, value});
    }
  }
}

TEST_CASE("A batch without ids has an empty plan") {
  BatchBuilder builder(3, 0);
  builder.EndSample();
  const BatchPlan plan = PlanOf(*builder.Build()->sparse, SharedTableLayout(), BucketMap(2, 2));
  CHECK(plan.ids.empty());
  CHECK(plan.row_floats == 0);
  for (const ServerShare& share : plan.servers) CHECK(share.groups.empty());
}

TEST_CASE("Features of different tables may not share a list") {
  Random random(1);
  const CompactBatch batch = RandomBatch(random, {0, 0, 1}, 4);
  CHECK(CheckLists(batch, SharedTableLayout()).message() ==
        "batch: feature 0 reads table 1 and shares list 0 with a feature of table 0");
}

TEST_CASE("batches have their smaller form where both have the same numbers") {
  ClusterConfig config;
  config.tables.resize(1);
  config.features.resize(2);
  const auto smaller = [](const ClusterConfig& of) {
    const EmbeddingWire wire = WireOf(of);
    CHECK(wire.rows.size() ==
          (wire.smaller || of.training.embeddings == TrainingConfig::Embeddings::kRows ? 2 : 0));
    // Only gradients of a CPU in f32 may be those of rows.
    CHECK(wire.row_gradients == (!wire.rows.empty() && of.nn_worker.device == ComputeDevice::kCpu));
    ClusterConfig with_bf16 = of;
    with_bf16.training.gradient_precision = VectorPrecision::kBf16;
    CHECK_FALSE(WireOf(with_bf16).row_gradients);
    return wire.smaller;
  };
  CHECK(smaller(config));
  ClusterConfig other = config;
  other.training.embedding_precision = VectorPrecision::kBf16;
  CHECK_FALSE(smaller(other));
  other = config;
  other.features[1].pooling = Pooling::kMax;
  CHECK_FALSE(smaller(other));
  other = config;
  other.nn_worker.device = ComputeDevice::kCuda;
  CHECK_FALSE(smaller(other));
  for (const auto form : {TrainingConfig::Embeddings::kPooled, TrainingConfig::Embeddings::kRows}) {
    other = config;
    other.training.embeddings = form;
    CHECK_FALSE(smaller(other));
  }
}

}  // namespace
}  // namespace simurgh
