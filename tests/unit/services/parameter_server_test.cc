// What a parameter server refuses to start with.

#include "services/embedding_ps/parameter_server.h"

#include <catch2/catch.hpp>

#include "simurgh/table/memory_budget.h"
#include "tests/support/skip.h"
#include "tests/unit/services/one_table.h"

namespace simurgh {
namespace {

TEST_CASE("a memory budget that leaves no room for rows is an error at the start") {
  const uint64_t bare = ResidentBytes();
  if (bare == 0) SIMURGH_SKIP("/proc does not show the resident memory");
  const auto start = [](uint64_t budget) {
    ClusterConfig config = OneTable(4, 1000);
    config.embedding_ps.memory_budget = budget;
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
