#include "table/table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "table/arena.h"

namespace simurgh {
namespace {

TableConfig Config(uint32_t dim, uint64_t capacity) {
  TableConfig config;
  config.name = "t";
  config.dim = dim;
  config.capacity_rows = capacity;
  return config;
}

struct OwnedTable {
  explicit OwnedTable(const TableConfig& config)
      : arena(Arena::Create(Table::ReservationFor(config)).value()), table(config, 1, arena) {}

  std::vector<float> Pull(const std::vector<uint64_t>& ids, uint64_t stamp) {
    std::vector<float> rows(ids.size() * table.config().dim);
    table.Pull(ids, {rows.data(), ids.size(), table.config().dim}, stamp);
    return rows;
  }
  std::vector<uint64_t> Ids() const {
    std::vector<uint64_t> ids;
    table.ForEachRow([&](const RowContents& row) { ids.push_back(row.id); });
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  RowContents Row(uint64_t id) const {
    RowContents found{};
    table.ForEachRow([&](const RowContents& row) {
      if (row.id == id) found = row;
    });
    return found;
  }

  Arena arena;
  Table table;
};

TEST_CASE("a request larger than the table reads every row right and leaves the last ones") {
  OwnedTable small(Config(4, 3));
  OwnedTable large(Config(4, 1000));
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 50; ++id) ids.push_back(id * id);
  CHECK(small.Pull(ids, 1) == large.Pull(ids, 1));
  CHECK(small.table.stats().rows == 3);
  CHECK(small.table.stats().evicted == 47);
  CHECK(small.Pull(ids, 2) == large.Pull(ids, 2));
}

TEST_CASE("an id given twice in a request has one row") {
  OwnedTable t(Config(4, 10));
  const std::vector<float> rows = t.Pull({8, 8, 9, 8}, 1);
  CHECK(std::memcmp(&rows[0], &rows[4], 16) == 0);
  CHECK(std::memcmp(&rows[0], &rows[12], 16) == 0);
  CHECK(std::memcmp(&rows[0], &rows[8], 16) != 0);
  CHECK(t.table.stats().rows == 2);
  CHECK(t.table.stats().created == 2);
  CHECK(t.table.stats().hits == 2);
  CHECK(t.Row(8).use_count == 3);
}

TEST_CASE("a request evicts other rows before those that it reads") {
  OwnedTable t(Config(4, 3));
  t.Pull({1}, 1);
  t.Pull({2}, 2);
  t.Pull({3}, 3);
  // 1 is the oldest, but this request uses it, after a row that it has to make room for.
  t.Pull({9, 1}, 4);
  CHECK(t.Ids() == std::vector<uint64_t>{1, 3, 9});
}

TEST_CASE("evaluation neither creates nor touches") {
  OwnedTable t(Config(4, 2));
  t.Pull({1}, 1);
  t.Pull({2}, 2);
  std::vector<float> rows(8, 5.0F);
  const std::vector<uint64_t> ids = {1, 7};
  CHECK(t.table.Evaluate(ids, {rows.data(), 2, 4}) == 1);
  CHECK(std::vector<float>(rows.begin() + 4, rows.end()) == std::vector<float>(4, 0.0F));
  CHECK(t.Row(1).use_count == 1);
  CHECK(t.Row(1).recency == 1);
  CHECK(t.table.stats().unseen == 1);
  CHECK(t.table.stats().evaluated == 1);
  t.Pull({3}, 3);
  CHECK(t.Ids() == std::vector<uint64_t>{2, 3});
}

TEST_CASE("the gradient of a missing id is dropped without shifting others") {
  TableConfig config = Config(2, 10);
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  config.initializer = {.kind = InitializerConfig::Kind::kConstant, .value = 1.0F};
  OwnedTable t(config);
  t.Pull({1, 3, 5}, 1);
  const std::vector<uint64_t> ids = {0, 1, 2, 3, 4, 5};
  const std::vector<float> gradients = {9, 9, .1F, .2F, 9, 9, .3F, .4F, 9, 9, .5F, .6F};
  CHECK(t.table.Push(ids, {gradients.data(), 6, 2}, 1.0F, 0).updated == 3);
  CHECK(t.Pull({1, 3, 5}, 2) ==
        std::vector<float>{1 - .1F, 1 - .2F, 1 - .3F, 1 - .4F, 1 - .5F, 1 - .6F});
  CHECK(t.table.stats().updated == 3);
  CHECK(t.table.stats().missing == 3);
}

TEST_CASE("an evicted row that returns starts anew") {
  OwnedTable t(Config(4, 1));
  const std::vector<float> fresh = t.Pull({1}, 1);
  const std::vector<uint64_t> ids = {1};
  const std::vector<float> gradient(4, 1.0F);
  t.table.Push(ids, {gradient.data(), 1, 4}, 0.1F, 0);
  CHECK(t.Pull({1}, 2) != fresh);
  t.Pull({2}, 3);
  CHECK(t.table.Push(ids, {gradient.data(), 1, 4}, 0.1F, 0).updated == 0);
  CHECK(t.Pull({1}, 4) == fresh);
  CHECK(t.Row(1).state[0] == 0.01F);
}

TEST_CASE("the numbers of a row stay finite") {
  TableConfig config = Config(3, 10);
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  config.optimizer.momentum = 0.9F;
  config.precision = GENERATE(RowPrecision::kF32, RowPrecision::kBf16);
  config.state_precision = config.precision;
  config.when_not_finite = GENERATE(WhenNotFinite::kReinitialize, WhenNotFinite::kRefuse);
  OwnedTable t(config);
  const std::vector<uint64_t> ids = {1, 2, 3};
  const std::vector<float> fresh = t.Pull(ids, 1);
  const auto push = [&](float second, float third, uint64_t step) {
    const std::vector<float> gradients = {1, 1, 1, 1, second, 1, third, 1, 1};
    return t.table.Push(ids, {gradients.data(), 3, 3}, 0.1F, step);
  };
  const PushReport dropped = push(std::numeric_limits<float>::quiet_NaN(), 3e38F, 0);
  CHECK(dropped.updated == 2);
  CHECK(dropped.missing == 0);
  CHECK(dropped.gradients_not_finite == 1);
  CHECK(dropped.rows_not_finite == 0);
  const std::vector<float> once = t.Pull(ids, 2);
  CHECK(std::equal(once.begin() + 3, once.begin() + 6, fresh.begin() + 3));
  CHECK(once[0] != fresh[0]);
  CHECK(once[6] == -10.0F);

  const PushReport infinite = push(1.0F, 3e38F, 1);  // The third row's velocity.
  CHECK(infinite.updated == 2);
  CHECK(infinite.gradients_not_finite == 0);
  CHECK(infinite.rows_not_finite == 1);
  const std::vector<float> twice = t.Pull(ids, 3);
  const bool refuses = config.when_not_finite == WhenNotFinite::kRefuse;
  CHECK(std::equal(twice.begin() + 6, twice.end(), (refuses ? once : fresh).begin() + 6));
  CHECK(twice[0] != once[0]);
  t.table.ForEachRow([&](const RowContents& row) {
    if (row.id == 3) CHECK((row.state[0] == 0) != refuses);
  });
  CHECK(t.Row(3).use_count == 3);
  CHECK(t.table.stats().gradients_not_finite == 1);
  CHECK(t.table.stats().rows_not_finite == 1);
}

TEST_CASE("requests of many blocks find, create and update every row") {
  constexpr uint64_t kRows = 100'000;
  TableConfig config = Config(3, kRows);
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  OwnedTable t(config);
  std::vector<uint64_t> ids(kRows);
  for (uint64_t i = 0; i < kRows; ++i) ids[i] = i * 0x9e3779b97f4a7c15ULL;
  const std::vector<float> created = t.Pull(ids, 1);
  std::vector<float> gradients(kRows * 3);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(i % 1000) * 1e-3F;
  REQUIRE(t.table.Push(ids, {gradients.data(), kRows, 3}, 1.0F, 0).updated == kRows);
  const std::vector<float> updated = t.Pull(ids, 2);
  for (size_t i = 0; i < created.size(); ++i) REQUIRE(updated[i] == created[i] - gradients[i]);
  CHECK(t.table.stats().evicted == 0);
}

TEST_CASE("recency survives the end of its 32 bits") {
  OwnedTable t(Config(2, 4));
  const uint64_t end = uint64_t{1} << 32;
  t.Pull({1}, 1);
  t.Pull({2}, end - 10);
  t.Pull({3}, end - 9);
  t.Pull({4},
         end + 5);  // The origin moves up: 1 becomes as old as can be, the others keep their order.
  CHECK(t.Row(2).recency == end - 10);
  CHECK(t.Row(4).recency == end + 5);
  t.Pull({5}, end + 6);
  CHECK(t.Ids() == std::vector<uint64_t>{2, 3, 4, 5});
  t.Pull({6}, end + 7);
  CHECK(t.Ids() == std::vector<uint64_t>{3, 4, 5, 6});
  t.Pull({3}, 5 * end);  // And at once by more than the bits can hold.
  t.Pull({7}, 5 * end + 1);
  CHECK(t.Row(3).recency == 5 * end);
  CHECK(t.table.stats().rows == 4);
  CHECK(t.table.stats().evicted == 3);
}

TEST_CASE("a use count stays at its largest value") {
  OwnedTable t(Config(1, 4));
  const std::vector<uint64_t> ids(1000, 7);
  for (uint64_t stamp = 0; stamp < 70; ++stamp) t.Pull(ids, stamp);
  CHECK(t.Row(7).use_count == 65535);
}

TEST_CASE("header, index and queue cost 32 bytes a row when the table is full, 40 on the way") {
  const uint64_t capacity = GENERATE(1'000'000, 1'499'999, 1'750'000);
  TableConfig config = Config(16, capacity);
  config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;  // Half the memory to write.
  OwnedTable t(config);
  std::vector<uint64_t> ids(10'000);
  uint64_t next = 0;
  double worst = 0;
  while (t.table.stats().rows < capacity) {
    for (uint64_t& id : ids) id = next++;
    t.Pull(ids, next);
    const TableStats stats = t.table.stats();
    if (stats.rows < 100'000) continue;
    worst = std::max(worst,
                     static_cast<double>(stats.overhead_bytes) / static_cast<double>(stats.rows));
  }
  const TableStats stats = t.table.stats();
  const double full = static_cast<double>(stats.overhead_bytes) / static_cast<double>(stats.rows);
  INFO("capacity " << capacity << ": " << full << " full, " << worst << " at worst");
  CHECK(full <= 32.0);
  CHECK(worst <= 40.0);
}

TEST_CASE("the memory of a table is known before it has rows") {
  TableConfig config = Config(8, 1 << 19);
  const int variant = GENERATE(0, 1, 2, 3);
  if (variant == 1) config.precision = config.state_precision = RowPrecision::kBf16;
  if (variant == 2) config.optimizer.kind = SparseOptimizerConfig::Kind::kAdam;
  if (variant == 3) {
    config.admission = {.kind = AdmissionConfig::Kind::kOccurrences, .occurrences = 2};
  }
  CAPTURE(variant);
  OwnedTable t(config);
  uint64_t ids = 0;
  for (const uint64_t total : {0, 7, 300, 5'000, 40'000, 123'456, 400'000, 600'000}) {
    CAPTURE(total);
    for (uint64_t stamp = ids / 1'000 + 1; ids < total; ++stamp) {
      std::vector<uint64_t> some;
      while (some.size() < 1'000 && ids < total) some.push_back(Mix64(ids++));
      // The second pull admits what the first has counted.
      t.Pull(some, 2 * stamp);
      t.Pull(some, 2 * stamp + 1);
    }
    const TableStats stats = t.table.stats();
    const TableMemory memory = Table::MemoryOf(config, total, 65'536);
    CHECK(memory.rows == stats.rows);
    CHECK(memory.sketches == Approx(t.table.sketches()).epsilon(0.03));
    CHECK(memory.bytes() == Approx(stats.bytes).epsilon(0.08).margin(8'192));
    CHECK(memory.bytes() - memory.weights - memory.state ==
          Approx(stats.overhead_bytes).epsilon(0.2).margin(8'192));
  }
}

}  // namespace
}  // namespace simurgh
