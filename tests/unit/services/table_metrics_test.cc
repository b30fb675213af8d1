#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "services/embedding_ps/server_metrics.h"
#include "table/partition.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

TEST_CASE("counts of a table are summed over a server's partitions") {
  TableConfig config;
  config.name = "city";
  config.dim = 2;
  config.capacity_rows = 4;
  config.eviction.idle_steps = 5;
  std::vector<std::unique_ptr<Partition>> partitions;
  for (int i = 0; i < 2; ++i) partitions.push_back(Partition::Create({config}, 1).value());
  MetricRegistry registry;
  TableMetrics metrics(registry, "city", partitions.size());
  CHECK(registry.Serialize().empty());  // No pulls yet.

  const auto pull = [&](size_t p, uint64_t step, const std::vector<uint64_t>& ids) {
    std::vector<float> rows(ids.size() * 2);
    const PullGroup group{0, ids, {rows.data(), ids.size(), 2}};
    REQUIRE(
        testing::PullWhole(*partitions[p], LookupMode::kTrain, {1, 0, step}, 0, {&group, 1}).ok());
    metrics.Report(p, partitions[p]->table(0));
  };
  pull(0, 0, {10, 11, 12});      // Three misses.
  pull(1, 0, {20, 21, 22, 23});  // Four.
  pull(0, 2, {10, 11, 13, 14});  // Two hits, two misses; 12 makes room for 14.
  pull(1, 6, {24});              // A miss; one row of the four is swept.
  const std::string text = registry.Serialize();
  const auto says = [&](const std::string& line) {
    INFO(text);
    CHECK_THAT(text, Catch::Contains(line + "\n"));
  };
  says("simurgh_ps_table_hits_total{table=\"city\"} 2");
  says("simurgh_ps_table_admissions_total{table=\"city\"} 10");
  says("simurgh_ps_table_evictions_total{cause=\"capacity\",table=\"city\"} 1");
  says("simurgh_ps_table_evictions_total{cause=\"idle_steps\",table=\"city\"} 1");
  // 10, at the first position, had been pulled two steps before.
  says("simurgh_ps_table_row_age_steps_bucket{table=\"city\",le=\"1\"} 0");
  says("simurgh_ps_table_row_age_steps_bucket{table=\"city\",le=\"3\"} 1");
  CHECK_THAT(text, !Catch::Contains("rejected_full"));
  const std::string distinct = "\nsimurgh_ps_table_distinct_ids{table=\"city\"} ";
  REQUIRE_THAT(text, Catch::Contains(distinct));
  CHECK(std::stod(text.substr(text.find(distinct) + distinct.size())) == Approx(10).epsilon(0.02));
}

}  // namespace
}  // namespace simurgh
