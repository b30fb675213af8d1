#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/arena.h"
#include "table/eviction.h"
#include "table/table.h"

namespace simurgh {
namespace {

TableConfig Config(const EvictionConfig& eviction, uint64_t capacity = 1000) {
  TableConfig config;
  config.name = "t";
  config.dim = 2;
  config.capacity_rows = capacity;
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  config.initializer = {.kind = InitializerConfig::Kind::kConstant, .value = 1.0F};
  config.eviction = eviction;
  return config;
}

struct OwnedTable {
  explicit OwnedTable(const TableConfig& table_config)
      : arena(Arena::Create(Table::ReservationFor(table_config)).value()),
        table(table_config, 1, arena) {}

  std::vector<float> Pull(const std::vector<uint64_t>& ids, uint64_t stamp) {
    std::vector<float> rows(ids.size() * 2);
    counts = table.Pull(ids, {rows.data(), ids.size(), 2}, stamp);
    return rows;
  }
  // Takes `by` off both weights.
  uint64_t Push(uint64_t id, float by) {
    const std::vector<float> gradient(2, by);
    return table.Push({&id, 1}, {gradient.data(), 1, 2}, 1.0F, step++).updated;
  }
  uint64_t Evaluate(uint64_t id) {
    std::vector<float> row(2);
    return table.Evaluate({&id, 1}, {row.data(), 1, 2});
  }
  std::vector<uint64_t> Ids() const {
    std::vector<uint64_t> ids;
    table.ForEachRow([&](const RowContents& row) { ids.push_back(row.id); });
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  uint64_t EvictedFor(EvictionCause cause) const {
    return table.stats().evicted_for[static_cast<size_t>(cause)];
  }

  Arena arena;
  Table table;
  PullReport counts;
  uint64_t step = 0;
};

TEST_CASE("a row that exceeds idle_steps is invisible, swept or not") {
  OwnedTable t(Config({.idle_steps = 10}));
  t.Pull({1, 2, 3, 4, 5, 6, 7, 8}, 100);
  REQUIRE(t.Push(8, 0.5F) == 1);
  t.Pull({1}, 110);  // Ten steps later all are there; one is used again.
  CHECK(t.Evaluate(8) == 1);
  CHECK(t.table.stats().evicted == 0);
  // Eleven steps: the sweep of this pull examines only row 1; the others have expired too.
  t.Pull({1}, 111);
  CHECK(t.Ids() == std::vector<uint64_t>{1});
  CHECK(t.Evaluate(8) == 0);
  CHECK(t.Push(8, 0.5F) == 0);
  CHECK(t.table.stats().rows > 1);
  // 8 begins anew.
  CHECK(t.Pull({8}, 112) == std::vector<float>{1.0F, 1.0F});
  CHECK(t.counts.created == 1);
  // In time the memory of all is taken back, and used again.
  for (int i = 0; i < 10; ++i) t.Pull({1}, 113);
  CHECK(t.table.stats().rows == 2);
  CHECK(t.EvictedFor(EvictionCause::kIdleSteps) == 7);
  const uint64_t bytes = t.table.stats().bytes;
  t.Pull({11, 12, 13, 14, 15, 16}, 113);
  CHECK(t.table.stats().bytes == bytes);
}

TEST_CASE("rows with low use expire earlier than others") {
  OwnedTable t(Config({.idle_steps = 50, .low_use = {.below = 3, .idle_steps = 10}}));
  t.Pull({1, 2, 3}, 0);
  t.Pull({2, 3}, 1);
  t.Pull({3}, 2);
  for (uint64_t stamp = 3; stamp < 60; ++stamp) {
    t.Pull({9, 9, 9, 9, 9}, stamp);
    std::vector<uint64_t> left = {9};
    if (stamp <= 2 + 50) left.insert(left.begin(), 3);
    if (stamp <= 1 + 10) left.insert(left.begin(), 2);
    if (stamp <= 0 + 10) left.insert(left.begin(), 1);
    CAPTURE(stamp);
    REQUIRE(t.Ids() == left);
    REQUIRE(t.EvictedFor(EvictionCause::kLowUse) ==
            static_cast<uint64_t>(stamp > 0 + 10) + static_cast<uint64_t>(stamp > 1 + 10));
    REQUIRE(t.EvictedFor(EvictionCause::kIdleSteps) == static_cast<uint64_t>(stamp > 2 + 50));
  }
}

TEST_CASE("rows close to zero expire, and a late gradient does not restore them") {
  OwnedTable t(Config({.small_norm = {.below = 0.5F, .idle_steps = 10}}));
  t.Pull({1, 2, 3}, 0);
  t.Push(1, 0.75F);   // Length 0.25 * sqrt(2).
  t.Push(2, 0.625F);  // Length 0.375 * sqrt(2) = 0.53.
  t.Pull({9}, 10);
  CHECK(t.Ids() == std::vector<uint64_t>{1, 2, 3, 9});
  t.Pull({9}, 11);
  CHECK(t.Ids() == std::vector<uint64_t>{2, 3, 9});
  CHECK(t.Push(1, -100.0F) == 0);
  CHECK(t.Ids() == std::vector<uint64_t>{2, 3, 9});
  CHECK(t.Pull({1}, 12) == std::vector<float>{1.0F, 1.0F});
  CHECK(t.EvictedFor(EvictionCause::kSmallNorm) == 1);
  CHECK(t.table.stats().evicted == 1);
  t.Push(2, 0.125F);
  t.Pull({9, 9, 9, 9, 9, 9}, 13);
  CHECK(t.EvictedFor(EvictionCause::kSmallNorm) == 2);
}

TEST_CASE("rows expire by idle_time, late by a 64th of it at most") {
  OwnedTable t(Config({.idle_time = std::chrono::seconds(64)}, 100'000));
  Expiry::Clock::time_point now{};
  t.table.SetClock([&now] { return now; });
  uint64_t stamp = 0;
  std::map<uint64_t, Expiry::Clock::time_point> last;
  Random random(3);
  for (uint64_t pull = 0; pull < 20'000; ++pull) {
    now += std::chrono::milliseconds(random.Below(40));
    stamp += random.Below(3);
    const uint64_t id = random.Below(10'000);
    const auto found = last.find(id);
    const bool had = found != last.end();
    const auto idle = had ? now - found->second : Expiry::Clock::duration::zero();
    t.Pull({id}, stamp);
    if (had && t.counts.found == 0) REQUIRE(idle >= std::chrono::seconds(64));
    if (had && t.counts.found == 1) REQUIRE(idle <= std::chrono::milliseconds(65'100));
    last[id] = now;
  }
  CHECK(t.EvictedFor(EvictionCause::kIdleTime) > 1000);
  CHECK(t.EvictedFor(EvictionCause::kIdleTime) == t.table.stats().evicted);
}

TEST_CASE("what a pull reads does not depend on how rows are spread over tables") {
  const TableConfig config = Config({.idle_steps = 30,
                                     .low_use = {.below = 2, .idle_steps = 10},
                                     .small_norm = {.below = 0.5F, .idle_steps = 5}},
                                    100'000);
  OwnedTable whole(config);
  OwnedTable left(config);
  OwnedTable right(config);
  Random random(5);
  for (uint64_t stamp = 0; stamp < 5000; ++stamp) {
    std::vector<uint64_t> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(random.Below(300) * random.Below(3));
    for (const uint64_t id : ids) {
      const auto rows = whole.Pull({id}, stamp);
      OwnedTable& part = id % 3 == 0 ? left : right;
      REQUIRE(part.Pull({id}, stamp) == rows);
      const auto by = static_cast<float>(random.Uniform() - 0.4);
      REQUIRE(whole.Push(id, by) == part.Push(id, by));
    }
    // Both advance to the step, like a partition that receives no ids.
    left.Pull({0}, stamp);
    right.Pull({1}, stamp);
    whole.Pull({0, 1}, stamp);
    REQUIRE(whole.table.ContentDigest() ==
            left.table.ContentDigest() + right.table.ContentDigest());
  }
  CHECK(whole.EvictedFor(EvictionCause::kLowUse) > 100);
  CHECK(whole.EvictedFor(EvictionCause::kSmallNorm) > 100);
  CHECK(whole.EvictedFor(EvictionCause::kIdleSteps) > 10);
}

TEST_CASE("a sweep examines one row per id of the pull") {
  OwnedTable t(Config({.idle_steps = 10}, 100'000));
  std::vector<uint64_t> ids(50'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i + 10;
  t.Pull(ids, 0);
  uint64_t before = 0;
  for (uint64_t pull = 1; pull <= 1000; ++pull) {
    t.Pull({1, 2, 3, 4, 5, 6, 7}, 100);
    REQUIRE(t.table.stats().evicted - before <= 7);
    before = t.table.stats().evicted;
  }
  CHECK(before >= 6990);
}

TEST_CASE("a full table rejects rows until others have expired") {
  TableConfig config = Config({.idle_steps = 10}, 2);
  config.when_full = WhenFull::kRefuse;
  OwnedTable t(config);
  t.Pull({1, 2}, 0);
  CHECK(t.Pull({1, 3, 2}, 5) == std::vector<float>{1, 1, 0, 0, 1, 1});
  CHECK(t.counts.rejected_full == 1);
  CHECK(t.Push(3, 1.0F) == 0);
  CHECK(t.table.stats().evicted == 0);
  CHECK(t.Pull({1, 3, 2}, 16) == std::vector<float>{1, 1, 1, 1, 0, 0});
  CHECK(t.table.stats().rejected_full == 2);
  CHECK(t.EvictedFor(EvictionCause::kIdleSteps) == 2);
}

}  // namespace
}  // namespace simurgh
