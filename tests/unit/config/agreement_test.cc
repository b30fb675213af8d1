#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "config/document.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

uint64_t HashWith(const std::vector<std::string>& overrides) {
  const StatusOr<ClusterConfig> config = ParseClusterConfig(kSample, kSamplePath, overrides);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return AgreementHash(*config);
}

}  // namespace

TEST_CASE("Everything that daemons must agree on changes the hash", "[config]") {
  const std::vector<std::vector<std::string>> changes = {
      {},
      {"cluster.name=other"},
      {"cluster.seed=8"},
      {"embedding_ps.partitions=4"},
      {"embedding_ps.instances.2.address=127.0.0.1:7403"},
      {"tables.0.dim=5"},
      {"tables.0.capacity_rows=1001"},
      {"tables.1.capacity_bytes=1000000"},
      {"tables.0.when_full=refuse"},
      {"tables.0.eviction={idle_steps: 9}"},
      {"tables.0.eviction={idle_time: 9s}"},
      {"tables.0.eviction={low_use: {below: 2}}"},
      {"tables.0.eviction={low_use: {below: 2, idle_steps: 9}}"},
      {"tables.0.eviction={small_norm: {below: 0.5}}"},
      {"tables.0.eviction={small_norm: {below: 0.5, idle_steps: 9}}"},
      {"tables.0.weight_bound=9"},
      {"tables.0.initializer.mean=0.125"},
      {"tables.0.initializer.stddev=0.25"},
      {"tables.0.initializer={low: -0.25}"},
      {"tables.0.initializer={high: 0.25}"},
      {"tables.0.initializer={}"},
      {"tables.0.initializer={kind: constant}"},
      {"tables.0.initializer={kind: constant, value: 1}"},
      {"tables.0.optimizer.epsilon=1e-8"},
      {"tables.0.optimizer.initial_accumulator=0.25"},
      {"tables.0.optimizer.accumulator_decay=0.5"},
      {"tables.0.optimizer.row_wise=false"},
      {"tables.1.optimizer={kind: adagrad}"},
      {"features.1.name=had"},
      {"features.1.column=age"},
      {"features.1.table=shop"},
      {"features.0.hash_stack.rounds=1"},
      {"features.0.hash_stack.buckets=499"},
      {"features.4={name: more, column: age, table: city}"},
      {"features.4={name: more, column: age, table: city, boundaries: [16777216]}"},
      {"features.4={name: more, column: age, table: city, boundaries: [16777217]}"},
      {"tables.0.name=town", "features.0.table=town"},
  };
  std::set<uint64_t> hashes;
  for (const std::vector<std::string>& overrides : changes) {
    INFO((overrides.empty() ? "nothing changed" : overrides[0]));
    CHECK(hashes.insert(HashWith(overrides)).second);
  }
}

TEST_CASE("What may differ between daemons does not", "[config]") {
  const uint64_t hash = HashWith({});
  for (const char* override_text :
       {"training.epochs=2", "training.dense_optimizer.learning_rate=1",
        "embedding_ps.instances.0.address=127.0.0.1:9000", "embedding_ps.instances.0.metrics=a:1",
        "embedding_ps.arena_directory=/tmp", "embedding_ps.numa_nodes=[1]",
        "embedding_worker.threads=3", "rpc.call_timeout=1s", "data.train=[CMakePresets.json]",
        "nn_worker.threads=2", "tables.0.optimizer.learning_rate=0.25",
        "tables.0.optimizer.schedule={kind: cosine}"}) {
    INFO(override_text);
    CHECK(HashWith({override_text}) == hash);
  }
}

}  // namespace simurgh
