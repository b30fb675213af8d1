#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "table/eviction.h"

namespace simurgh {
namespace {

// A queue over rows that are nothing but stamps and ids, and the stamps of those in it.
struct Stamped {
  explicit Stamped(uint64_t capacity)
      : arena(Arena::Create(Arena::ReservationFor(RecencyQueue::ReservationFor(capacity))).value()),
        stamps(capacity),
        ids(capacity),
        queued(capacity),
        queue(
            arena, capacity,
            RowField<uint32_t>(reinterpret_cast<const std::byte*>(stamps.data()), sizeof(uint32_t)),
            RowField<uint64_t>(reinterpret_cast<const std::byte*>(ids.data()), sizeof(uint64_t))) {}

  void Add(uint32_t row, uint32_t stamp) {
    stamps[row] = stamp;
    queued[row] = true;
    ++with_stamp[stamp];
    queue.Add(row);
  }
  void Use(uint32_t row, uint32_t stamp) {
    Forget(stamps[row]);
    stamps[row] = stamp;
    ++with_stamp[stamp];
  }
  // How many rows are older than the victim.
  size_t Pop(uint32_t now, uint32_t& row) {
    row = queue.PopOldest(now);
    REQUIRE(queued[row]);
    queued[row] = false;
    size_t older = 0;
    for (const auto& [stamp, count] : with_stamp) {
      if (stamp >= stamps[row]) break;
      older += count;
    }
    Forget(stamps[row]);
    return older;
  }
  void Forget(uint32_t stamp) {
    if (--with_stamp[stamp] == 0) with_stamp.erase(stamp);
  }

  Arena arena;
  std::vector<uint32_t> stamps;
  std::vector<uint64_t> ids;
  std::vector<bool> queued;
  std::map<uint32_t, size_t> with_stamp;
  RecencyQueue queue;
};

TEST_CASE("rows leave the queue in the order of their last use, at any pace of stamps",
          "[minutes]") {
  const uint64_t seed = GENERATE(1, 2, 3, 4);
  const uint32_t capacity = GENERATE(1, 2, 15, 16, 300, 8000);
  // Stamps per operation: from many uses of one stamp to gaps that outgrow the ring at once.
  const uint64_t pace = GENERATE(0, 1, 50, 20'000);
  INFO("seed " << seed << ", capacity " << capacity << ", pace " << pace);
  Random random(seed);
  Stamped rows(capacity);
  uint32_t now = 0;
  uint32_t next_row = 0;
  std::vector<uint32_t> free;
  for (int operation = 0; operation < 50'000; ++operation) {
    now += pace == 0 ? static_cast<uint32_t>(random.Below(64) == 0)
                     : static_cast<uint32_t>(random.Below(pace + 1));
    const auto used = static_cast<uint32_t>(random.Below(capacity));
    if (rows.queued[used]) rows.Use(used, now);
    if (random.Below(3) != 0) continue;
    if (next_row < capacity) {
      rows.Add(next_row++, now);
      continue;
    }
    uint32_t row = kNoRow;
    REQUIRE(rows.Pop(now, row) == 0);
    rows.Add(row, now);
    REQUIRE(rows.queue.size() == capacity);
  }
  // Draining is in order too.
  while (rows.queue.size() > 0) {
    uint32_t row = kNoRow;
    REQUIRE(rows.Pop(now, row) == 0);
  }
}

TEST_CASE("victims stay near the oldest rows even without sorting") {
  constexpr uint32_t kRows = 200'000;
  Random random(9);
  Stamped rows(kRows);
  uint32_t now = 0;
  for (uint32_t row = 0; row < kRows; ++row) rows.Add(row, now += 100);
  for (int operation = 0; operation < 50'000; ++operation) {
    now += 100;
    for (int i = 0; i < 4; ++i) rows.Use(static_cast<uint32_t>(random.Below(kRows)), now);
    const uint32_t oldest = rows.with_stamp.begin()->first;
    uint32_t row = kNoRow;
    rows.Pop(now, row);
    REQUIRE(rows.stamps[row] - oldest <= (now - oldest) / 64);
    rows.Add(row, now);
  }
}

TEST_CASE("rows of one stamp leave in the order of their hashed ids, at any row numbers") {
  const uint64_t seed = GENERATE(range(1, 9));
  const auto rows = static_cast<uint32_t>(GENERATE(1, 100, 8192));
  CAPTURE(seed, rows);
  Random random(seed);
  std::vector<uint64_t> ids(rows);
  std::vector<uint32_t> stamps(rows);
  for (uint32_t i = 0; i < rows; ++i) {
    ids[i] = random();
    stamps[i] = static_cast<uint32_t>(random.Below(4)) * 100;
  }
  std::vector<uint32_t> order(rows);
  for (uint32_t i = 0; i < rows; ++i) order[i] = i;
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return stamps[a] != stamps[b] ? stamps[a] < stamps[b] : Mix64(ids[a]) < Mix64(ids[b]);
  });
  Stamped table(rows);
  std::vector<uint32_t> filed = order;
  for (uint32_t i = rows; i-- > 1;) std::swap(filed[i], filed[random.Below(i + 1)]);
  for (uint32_t row = 0; row < rows; ++row) {
    table.ids[row] = ids[filed[row]];
    table.Add(row, stamps[filed[row]]);
  }
  for (const uint32_t expected : order) {
    REQUIRE(table.ids[table.queue.PopOldest(400)] == ids[expected]);
  }
}

TEST_CASE("victims depend on stamps and ids only, also within one stamp", "[minutes]") {
  const uint64_t seed = GENERATE(range(1, 5));
  const uint32_t capacity = GENERATE(1, 7, 40, 500);
  const uint64_t pace = GENERATE(1, 20, 300, 5'000);  // Operations of one stamp.
  CAPTURE(seed, capacity, pace);
  Random random(seed);
  Stamped rows(capacity);
  uint32_t now = 0;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> by_age;  // Stamp and hash: row.
  const auto key = [&](uint32_t row) { return std::pair(rows.stamps[row], Mix64(rows.ids[row])); };
  const auto add = [&](uint32_t row) {
    rows.ids[row] = random();
    rows.Add(row, now);
    by_age[key(row)] = row;
  };
  for (uint32_t row = 0; row < capacity; ++row) add(row);
  for (uint64_t operation = 0; operation < 10'000; ++operation) {
    now += static_cast<uint32_t>(random.Below(pace) == 0);
    const auto used = static_cast<uint32_t>(random.Below(capacity));
    by_age.erase(key(used));
    rows.Use(used, now);
    by_age[key(used)] = used;
    uint32_t row = kNoRow;
    rows.Pop(now, row);
    REQUIRE(row == by_age.begin()->second);
    by_age.erase(by_age.begin());
    add(row);
  }
}

TEST_CASE("a queue reuses its chunks") {
  constexpr uint32_t kRows = 5000;
  Random random(5);
  Stamped rows(kRows);
  uint32_t now = 0;
  for (uint32_t row = 0; row < kRows; ++row) rows.Add(row, ++now);
  uint64_t bytes = 0;
  for (int operation = 0; operation < 300'000; ++operation) {
    ++now;
    rows.stamps[random.Below(kRows)] = now;
    const uint32_t row = rows.queue.PopOldest(now);
    rows.stamps[row] = now;
    rows.queue.Add(row);
    if (operation == 100'000) bytes = rows.queue.bytes_used();
  }
  CHECK(rows.queue.bytes_used() <= bytes + 64 * 64);
}

TEST_CASE("a cleared queue accepts smaller stamps") {
  Stamped rows(100);
  for (uint32_t row = 0; row < 100; ++row) rows.Add(row, 4'000'000'000U + row * 1000);
  rows.queue.Clear();
  CHECK(rows.queue.size() == 0);
  for (uint32_t row = 0; row < 100; ++row) {
    rows.stamps[row] = 100 - row;
    rows.queue.Add(row);
  }
  for (uint32_t row = 100; row-- > 0;) REQUIRE(rows.queue.PopOldest(100) == row);
}

TEST_CASE("the recency clock follows steps, never decreases and puts a new run last") {
  RecencyClock clock;
  const uint64_t first = clock.Advance(7, 100);
  CHECK(clock.Advance(7, 101) == first + 1);
  CHECK(clock.Advance(7, 99) == first + 1);  // A slower rank.
  CHECK(clock.Advance(7, 110) == first + 10);
  CHECK(clock.Advance(8, 0) == first + 11);
  CHECK(clock.Advance(8, 0) == first + 11);
  CHECK(clock.Advance(8, 5) == first + 16);
  // Two runs at once cost a stamp a turn, not a run's length.
  for (uint64_t turn = 1; turn <= 10; ++turn) {
    CHECK(clock.Advance(turn % 2 == 0 ? 8 : 7, 1'000'000) == first + 16 + turn);
  }
  RecencyClock restored;
  restored.ContinueAt(50);
  CHECK(restored.Advance(9, 1'000) == 51);
}

}  // namespace
}  // namespace simurgh
