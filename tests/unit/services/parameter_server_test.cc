// What a parameter server refuses to start with.

#include "services/embedding_ps/parameter_server.h"

#include <catch2/catch.hpp>

#include "simurgh/table/memory_budget.h"

namespace simurgh {
namespace {

ClusterConfig WithBudget(uint64_t bytes) {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}}, .partitions = 1, .memory_budget = bytes};
  TableConfig table;
  table.name = "ids";
  table.dim = 4;
  table.capacity_rows = 1000;
  config.tables = {table};
  return config;
}

TEST_CASE("a memory budget that leaves no room for rows is an error at the start") {
  const uint64_t bare = ResidentBytes();
  if (bare == 0) return;  // The system does not tell.
  const auto start = [](uint64_t budget) {
    const ClusterConfig config = WithBudget(budget);
    MetricRegistry registry;
    ServerMetrics metrics(registry, config, 0);
    return ParameterServer::Create(config, 0, metrics).status();
  };
  const Status refused = start(bare);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("embedding_ps.memory_budget") && Catch::Contains("raise it"));
  CHECK(start(4 * bare + (uint64_t{1} << 30)) == absl::OkStatus());
  CHECK(start(0) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh
