#include "table/memory_budget.h"

#include <algorithm>
#include <string>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/partition.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST_CASE("a budget grants until measured and promised memory reach the limit") {
  uint64_t resident = 10;
  MemoryBudget budget(100, /*kept_free=*/20, [&] { return resident; });
  CHECK(budget.Grant(40, 0));        // 50 and 20 free.
  CHECK_FALSE(budget.Grant(31, 0));  // Nothing of the 40 is touched yet.
  resident = 50;
  CHECK(budget.Grant(30, 40));
  CHECK_FALSE(budget.Grant(1, 0));
  resident = 45;  // Other code freed memory.
  CHECK(budget.Grant(5, 0));
}

TEST_CASE("the resident memory of a process grows with what it touches") {
  const uint64_t before = ResidentBytes();
  REQUIRE(before > 0);
  std::vector<char> touched(64 * kMiB, 1);
  CHECK(ResidentBytes() >= before + 60 * kMiB);
  CHECK(std::ranges::count(touched, 1) == static_cast<ptrdiff_t>(64 * kMiB));
}

TableConfig Config(WhenFull when_full) {
  TableConfig config;
  config.name = "t";
  config.dim = 16;
  config.capacity_rows = 100'000'000;
  config.when_full = when_full;
  return config;
}

struct Pulled {
  StatusOr<PullReport> last = PullReport();
  PullReport total;
  uint64_t max_resident = 0;
};

// Pulls several times more new ids than the budget holds rows.
Pulled PullNewIds(Partition& partition, uint64_t ids, uint64_t batch) {
  Pulled pulled;
  std::vector<uint64_t> request(batch);
  std::vector<float> rows(batch * 16);
  Random random(1);
  for (uint64_t step = 0; step * batch < ids; ++step) {
    for (uint64_t& id : request) id = random();
    const PullGroup group{0, request, {rows.data(), batch, 16}};
    pulled.last = testing::PullWhole(partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1});
    if (!pulled.last.ok()) break;
    pulled.total.created += pulled.last->created;
    pulled.total.evicted += pulled.last->evicted;
    pulled.total.rejected_full += pulled.last->rejected_full;
    if (step % 16 == 0) {
      pulled.max_resident = std::max(pulled.max_resident, ResidentBytes());
    }
  }
  return pulled;
}

// Some 152 bytes a row, so that 64 MiB hold less than half a million.
constexpr uint64_t kRoom = 64 * kMiB;
constexpr uint64_t kIds = 2'000'000;

TEST_CASE("a table stays within the server's memory by evicting") {
  const uint64_t limit = ResidentBytes() + kRoom;
  MemoryBudget budget(limit, /*kept_free=*/4 * kMiB);
  auto partition = Partition::Create({Config(WhenFull::kEvict)}, 1, &budget).value();
  const Pulled pulled = PullNewIds(*partition, kIds, 1000);
  REQUIRE(pulled.last.ok());
  CHECK(pulled.total.created == kIds);
  CHECK(pulled.max_resident <= limit);
  const TableStats stats = partition->table(0).stats();
  CHECK(stats.rows > 250'000);  // The room was used.
  CHECK(stats.evicted_for[static_cast<size_t>(EvictionCause::kMemory)] == kIds - stats.rows);
}

TEST_CASE("a table stays within the server's memory by refusing") {
  const uint64_t limit = ResidentBytes() + kRoom;
  MemoryBudget budget(limit, /*kept_free=*/4 * kMiB);
  auto partition = Partition::Create({Config(WhenFull::kRefuse)}, 1, &budget).value();
  const Pulled pulled = PullNewIds(*partition, kIds, 1000);
  REQUIRE(pulled.last.ok());
  CHECK(pulled.max_resident <= limit);
  const TableStats stats = partition->table(0).stats();
  CHECK(stats.rows > 250'000);
  CHECK(stats.evicted == 0);
  CHECK(stats.rejected_full == kIds - stats.rows);
}

// Requests are as long as a server's pieces, and their rows exceed the prefaulted memory.
TEST_CASE("a table in tmpfs stays within the server's memory") {
  constexpr size_t kBatch = 4096;
  TableConfig config = Config(WhenFull::kRefuse);
  config.dim = 1024;
  const uint64_t limit = ResidentBytes() + 2 * kRoom;
  MemoryBudget budget(limit, /*kept_free=*/24 * kMiB);
  auto partition = Partition::Create({config}, 1, &budget, {.arena_directory = "/dev/shm"}).value();
  std::vector<uint64_t> ids(kBatch);
  std::vector<float> rows(kBatch * config.dim);
  const PullGroup group{0, ids, {rows.data(), kBatch, config.dim}};
  Random random(1);
  for (uint64_t step = 0; step < 16; ++step) {
    for (uint64_t& id : ids) id = random();
    REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1}).ok());
    REQUIRE(ResidentBytes() <= limit);
  }
  CHECK(partition->table(0).stats().rejected_full > 0);
  CHECK(partition->table(0).stats().rows > kBatch);
}

// All tables reach the huge-page threshold when the budget is nearly used up.
TEST_CASE("many tables that get their first huge pages at once stay within the server's memory") {
  constexpr size_t kTables = 24;
  constexpr size_t kBatch = 500;
  std::vector<TableConfig> configs(kTables, Config(WhenFull::kEvict));
  for (size_t i = 0; i < kTables; ++i) configs[i].name = "t" + std::to_string(i);
  const uint64_t room = GENERATE(120, 150, 180) * kMiB;
  INFO("room " << room);
  const uint64_t limit = ResidentBytes() + room;
  MemoryBudget budget(limit, /*kept_free=*/8 * kMiB);
  auto partition = Partition::Create(configs, 1, &budget).value();
  std::vector<uint64_t> ids(kBatch);
  std::vector<float> rows(kBatch * 16);
  Random random(1);
  uint64_t max_resident = 0;
  for (uint64_t step = 0; step < 150; ++step) {
    for (uint32_t table = 0; table < kTables; ++table) {
      for (uint64_t& id : ids) id = random();
      const PullGroup group{table, ids, {rows.data(), kBatch, 16}};
      REQUIRE(
          testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1}).ok());
    }
    max_resident = std::max(max_resident, ResidentBytes());
  }
  CHECK(max_resident <= limit);
  CHECK(max_resident >= limit - room / 4);
}

TEST_CASE("admission sketches stay within the server's memory") {
  constexpr uint64_t kSketchBytes = uint64_t{4} * 1024;  // Per bucket; 256 MiB in total.
  TableConfig config = Config(WhenFull::kEvict);
  config.admission = {
      .kind = AdmissionConfig::Kind::kOccurrences, .occurrences = 2, .sketch_width = 1024};
  const uint64_t limit = ResidentBytes() + kRoom;
  MemoryBudget budget(limit, /*kept_free=*/4 * kMiB);
  auto partition = Partition::Create({config}, 1, &budget).value();
  std::vector<uint64_t> ids(1000);
  std::vector<float> rows(ids.size() * 16, -1.0F);
  const PullGroup group{0, ids, {rows.data(), ids.size(), 16}};
  Random random(1);
  PullReport total;
  for (uint64_t step = 0; step < 200; ++step) {
    for (uint64_t& id : ids) id = random();
    const auto report =
        testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1});
    REQUIRE(report.ok());
    total.rejected_admission += report->rejected_admission;
    total.rejected_full += report->rejected_full;
  }
  CHECK(ResidentBytes() <= limit);
  const uint64_t sketches = partition->table(0).stats().bytes / kSketchBytes;
  CHECK(sketches > 10'000);
  CHECK(total.rejected_full > 0);
  CHECK(total.rejected_admission > sketches);  // Buckets that have a sketch go on counting.
  CHECK(total.rejected_admission + total.rejected_full == 200 * ids.size());
  CHECK(rows == std::vector<float>(rows.size(), 0.0F));
}

TEST_CASE("a full table with when_full: stop fails the pull with the reason") {
  MemoryBudget budget(ResidentBytes() + kRoom, /*kept_free=*/4 * kMiB);
  auto partition = Partition::Create({Config(WhenFull::kStop)}, 1, &budget).value();
  const Pulled pulled = PullNewIds(*partition, kIds, 1000);
  CHECK(pulled.last.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(pulled.last.status().message()),
             Catch::Contains("table 't' is full") && Catch::Contains("memory_budget"));
  TableConfig small = Config(WhenFull::kStop);
  small.capacity_rows = 10;
  auto full = Partition::Create({small}, 1).value();
  CHECK_THAT(std::string(PullNewIds(*full, 11, 11).last.status().message()),
             Catch::Contains("share of its capacity is 10"));
}

TEST_CASE("tables share a budget; a late one gets no rows") {
  uint64_t resident = 0;
  MemoryBudget budget(kMiB, 0, [&] { return resident; });
  TableConfig late = Config(WhenFull::kEvict);
  late.name = "late";
  auto partition = Partition::Create({Config(WhenFull::kEvict), late}, 1, &budget).value();
  PullNewIds(*partition, 1000, 10);
  resident = kMiB;  // All that was granted is touched.
  const uint64_t id = 5;
  std::vector<float> row(16, -1.0F);
  const PullGroup group{1, {&id, 1}, {row.data(), 1, 16}};
  const auto report =
      testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 1000}, 0, {&group, 1});
  REQUIRE(report.ok());
  CHECK(report->rejected_full == 1);
  CHECK(row == std::vector<float>(16, 0.0F));
  resident = 0;
  CHECK(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 1001}, 0, {&group, 1})->created ==
        1);
}

}  // namespace
}  // namespace simurgh
