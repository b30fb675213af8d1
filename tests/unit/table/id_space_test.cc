// Memory of a table with many ids and few rows.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/memory_budget.h"
#include "table/partition.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TableConfig Config(uint32_t dim, uint64_t capacity) {
  TableConfig config;
  config.name = "t";
  config.dim = dim;
  config.capacity_rows = capacity;
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  return config;
}

// 8e11 ids of 128 weights: 1e14 parameters, of which some ten thousand rows are there at a time.
TEST_CASE("an id space of a hundred trillion parameters takes only the memory of its rows") {
  constexpr uint64_t kIds = 800'000'000'000;
  constexpr uint64_t kSpread = (uint64_t{1} << 63) / kIds;  // Over all of 2^63.
  constexpr uint32_t kDim = 128;
  constexpr uint64_t kCapacity = 20'000;
  constexpr size_t kBatch = 1000;
  auto partition = Partition::Create({Config(kDim, kCapacity)}, 1).value();
  const Table& table = partition->table(0);
  Random random(8);
  std::vector<uint64_t> ids(kBatch);
  std::vector<float> values(kBatch * kDim);
  const MatrixView<float> matrix(values.data(), kBatch, kDim);
  const PullGroup pull{0, ids, matrix};
  const PushGroup push{0, 0.1F, ids, matrix};
  uint64_t resident = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    for (uint64_t& id : ids) id = random.Below(kIds) * kSpread;
    ids[0] = kIds * kSpread - 1 - random.Below(100);  // The end of the space.
    REQUIRE(
        testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, step, {&pull, 1}).ok());
    const auto report = testing::PushWhole(*partition, {1, 0, step}, {&push, 1});
    REQUIRE(report.ok());
    REQUIRE(report->updated == kBatch);
    if (step == 50) resident = ResidentBytes();  // Full since step 20.
  }
  const TableStats stats = table.stats();
  CHECK(stats.rows == kCapacity);
  CHECK(stats.evicted > 250'000);
  CHECK(stats.bytes <= kCapacity * (kDim * 4 + 16 + 24) + kMiB);
  CHECK(ResidentBytes() <= resident + kMiB);
  CHECK(table.distinct_ids().Estimate() == Approx(300'000).epsilon(0.1));
}

TEST_CASE("unused capacity costs nothing") {
  const uint64_t before = ResidentBytes();
  auto partition = Partition::Create({Config(16, 1'000'000'000)}, 1).value();
  const uint64_t id = 7;
  std::vector<float> row(16);
  const PullGroup group{0, {&id, 1}, {row.data(), 1, 16}};
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {&group, 1}).ok());
  CHECK(ResidentBytes() - before <= 10 * kMiB);
  CHECK(ResidentBytes() <= 100 * kMiB);
}

TEST_CASE("many small tables cost pages, not their capacity") {
  std::vector<TableConfig> configs(200);
  for (size_t i = 0; i < configs.size(); ++i) configs[i].name = "t" + std::to_string(i);
  for (TableConfig& config : configs) {
    config.capacity_rows = uint64_t{1} << 30;
    config.admission = {.kind = AdmissionConfig::Kind::kOccurrences, .sketch_width = 16};
  }
  const uint64_t before = ResidentBytes();
  auto partition = Partition::Create(configs, 1).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> rows(24);
  for (uint32_t table = 0; table < configs.size(); ++table) {
    const PullGroup group{table, ids, {rows.data(), 3, 8}};
    REQUIRE(
        testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {&group, 1})->created ==
        0);
    REQUIRE(
        testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 1}, 0, {&group, 1})->created ==
        3);
  }
  // Rows, index and queue touch a page each, so do the sketches; the rest is the tables' own
  // objects.
  CHECK((ResidentBytes() - before) / configs.size() < uint64_t{50} * 1024);
}

}  // namespace
}  // namespace simurgh
