#include "table/row_index.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

// An index over rows that are nothing but ids.
struct IndexedIds {
  explicit IndexedIds(uint64_t capacity)
      : arena(Arena::Create(Arena::ReservationFor(RowIndex::ReservationFor(capacity))).value()),
        ids(capacity),
        index(
            arena, capacity,
            RowField<uint64_t>(reinterpret_cast<const std::byte*>(ids.data()), sizeof(uint64_t))) {}

  void Insert(uint64_t id, uint32_t row) {
    ids[row] = id;
    index.Insert(RowIndex::Hash(id), row);
  }
  uint32_t Find(uint64_t id) const { return index.Find(id, RowIndex::Hash(id)); }

  Arena arena;
  std::vector<uint64_t> ids;
  RowIndex index;
};

// The id that has this hash.
uint64_t IdOfHash(uint64_t hash) {
  const auto unshift = [](uint64_t x, int shift) {
    uint64_t y = x;
    for (int i = shift; i < 64; i += shift) y = x ^ (y >> shift);
    return y;
  };
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
    return x;
  };
  uint64_t x = unshift(hash, 31) * inverse(0x94d049bb133111ebULL);
  x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ULL);
  const uint64_t salt = 0x9fb21c651e98df25ULL;
  return unshift(x, 30) - salt;
}

uint32_t MatchTagsReference(const IndexBucket& bucket, uint16_t tag) {
  uint32_t matches = 0;
  for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
    matches |= uint32_t{bucket.tags[slot] == tag} << slot;
  }
  return matches;
}

TEST_CASE("the vector comparison of tags agrees with the reference") {
  Random random(1);
  for (int round = 0; round < 200'000; ++round) {
    IndexBucket bucket;
    for (uint16_t& tag : bucket.tags) tag = static_cast<uint16_t>(random.Below(4));
    // What follows the tags must not count.
    for (uint32_t& row : bucket.rows) row = static_cast<uint32_t>(random.Below(4) * 0x10001);
    const auto tag = static_cast<uint16_t>(random.Below(4));
    REQUIRE(MatchTags(bucket, tag) == MatchTagsReference(bucket, tag));
  }
}

TEST_CASE("an index agrees with a map over millions of operations") {
  const uint64_t seed = GENERATE(1, 2, 3);
  const uint64_t capacity = GENERATE(1, 3, 10, 100, 4000, 200'000);
  INFO("seed " << seed << ", capacity " << capacity);
  Random random(seed);
  IndexedIds indexed(capacity);
  std::unordered_map<uint64_t, uint32_t> model;
  std::vector<uint32_t> free;
  for (uint32_t row = 0; row < capacity; ++row) free.push_back(row);
  // Phases that fill and phases that empty, so that segments see erasures at every load.
  for (int operation = 0; operation < 600'000; ++operation) {
    const uint64_t id = random.Below(capacity * 2 + 1) * 0x1000;
    const bool filling = operation / 150'000 % 2 == 0;
    const auto expected = model.find(id);
    const uint32_t found = indexed.Find(id);
    // An assertion of Catch2 for each operation would take most of the time.
    if (found != (expected == model.end() ? kNoRow : expected->second)) FAIL("id " << id);
    if (expected == model.end()) {
      if (free.empty() || random.Below(filling ? 2 : 8) != 0) continue;
      const uint32_t row = free.back();
      free.pop_back();
      indexed.Insert(id, row);
      model.emplace(id, row);
    } else if (random.Below(filling ? 8 : 2) == 0) {
      indexed.index.Erase(RowIndex::Hash(id), expected->second);
      free.push_back(expected->second);
      model.erase(expected);
    }
    if (indexed.index.size() != model.size()) FAIL("operation " << operation);
  }
  for (const auto& [id, row] : model) {
    if (indexed.Find(id) != row) FAIL("id " << id);
  }
}

TEST_CASE("an emptied index has no overflow counts") {
  IndexedIds indexed(5000);
  for (uint32_t row = 0; row < 5000; ++row) indexed.Insert(row, row);
  for (uint32_t row = 0; row < 5000; ++row) indexed.index.Erase(RowIndex::Hash(row), row);
  // With a count left behind, a search for an absent id would look further than its bucket.
  for (uint64_t id = 0; id < 5000; ++id) {
    REQUIRE(indexed.index.Candidate(RowIndex::Hash(id)) == kNoRow);
  }
  CHECK(indexed.index.size() == 0);
}

TEST_CASE("a full index has its planned segments, also for ids of one server only") {
  constexpr uint64_t kCapacity = 300'000;
  IndexedIds indexed(kCapacity);
  uint64_t id = 0;
  for (uint32_t row = 0; row < kCapacity; ++row) {
    // Placement gives a partition ids whose Mix64 begins with certain bits.
    while (Mix64(id) >> 60 != 5) ++id;
    indexed.Insert(id++, row);
  }
  CHECK(indexed.index.segment_count() == 32);
  CHECK(static_cast<double>(indexed.index.bytes_used()) / kCapacity < 11.0);
}

TEST_CASE("ids with equal top bits of their hashes make a segment grow, not split for ever") {
  constexpr uint32_t kRows = 100'000;
  IndexedIds indexed(kRows);
  Random random(3);
  for (uint32_t row = 0; row < kRows; ++row) {
    indexed.Insert(IdOfHash(uint64_t{0xabc} << 52 | random() >> 12), row);
  }
  CHECK(RowIndex::Hash(indexed.ids[7]) >> 52 == 0xabc);
  for (uint32_t row = 0; row < kRows; ++row) {
    if (indexed.Find(indexed.ids[row]) != row) FAIL("row " << row);
  }
  CHECK(indexed.index.segment_count() < 64);
}

// Every entry is moved once; of displaced ones, less than an eighth, the ids are read and it is
// done again.
uint64_t MaxStepsOfSplit(const RowIndex& index) { return index.max_split_at_once() * 5 / 4; }

TEST_CASE("growth costs an insertion at most one split, and little on average", "[minutes]") {
  // A small row number leaves many split bits, a large one few; 2^31 leaves none.
  const uint64_t capacity = GENERATE(uint64_t{400'000}, uint64_t{1} << 28, uint64_t{1} << 30);
  INFO("capacity " << capacity);
  constexpr uint32_t kRows = 400'000;
  std::vector<uint64_t> ids(kRows);
  Arena arena = Arena::Create(Arena::ReservationFor(RowIndex::ReservationFor(capacity))).value();
  RowIndex index(
      arena, capacity,
      RowField<uint64_t>(reinterpret_cast<const std::byte*>(ids.data()), sizeof(uint64_t)));
  uint64_t most = 0;
  uint64_t late = 0;
  Random random(5);
  for (uint32_t row = 0; row < kRows; ++row) {
    ids[row] = random();
    const uint64_t before = index.growth_steps();
    index.Insert(RowIndex::Hash(ids[row]), row);
    const uint64_t steps = index.growth_steps() - before;
    most = std::max(most, steps);
    if (row >= kRows / 2) late += steps;
  }
  CHECK(most <= MaxStepsOfSplit(index));
  // Half of the rows are moved once or twice, and some have their split bits renewed.
  CHECK(late < 2 * kRows);
  for (uint32_t row = 0; row < kRows; ++row) {
    REQUIRE(index.Find(ids[row], RowIndex::Hash(ids[row])) == row);
  }
}

TEST_CASE("the number of splits is bounded by the insertions of a request") {
  constexpr uint64_t kCapacity = 2'000'000;
  constexpr uint32_t kRequest = 500;
  IndexedIds indexed(kCapacity);
  uint64_t max_splits = 0;
  uint64_t max_steps = 0;
  for (uint32_t row = 0; row < kCapacity;) {
    const size_t segments = indexed.index.segment_count();
    const uint64_t steps = indexed.index.growth_steps();
    const uint32_t end = std::min<uint32_t>(row + kRequest, kCapacity);
    for (; row < end; ++row) indexed.Insert(Mix64(row), row);
    max_splits = std::max<uint64_t>(max_splits, indexed.index.segment_count() - segments);
    max_steps = std::max(max_steps, indexed.index.growth_steps() - steps);
  }
  CHECK(indexed.index.segment_count() >= 128);
  // Splits have half as many insertions between them as a segment has buckets: from 510 to 1,020.
  CHECK(max_splits == 1);
  // Insertions renew half as many buckets of ten slots, and by chance a few more.
  CHECK(max_steps <= MaxStepsOfSplit(indexed.index) + 6 * kRequest);
  for (uint32_t row = 0; row < kCapacity; ++row) {
    if (indexed.Find(indexed.ids[row]) != row) FAIL("row " << row);
  }
}

TEST_CASE("an index too large for split bits reads ids instead") {
  constexpr uint64_t kCapacity = uint64_t{3} << 30;
  constexpr uint32_t kRows = 60'000;
  std::vector<uint64_t> ids(kRows);
  Arena arena = Arena::Create(Arena::ReservationFor(RowIndex::ReservationFor(kCapacity))).value();
  RowIndex index(
      arena, kCapacity,
      RowField<uint64_t>(reinterpret_cast<const std::byte*>(ids.data()), sizeof(uint64_t)));
  for (uint32_t row = 0; row < kRows; ++row) {
    ids[row] = Mix64(row);
    index.Insert(RowIndex::Hash(ids[row]), row);
  }
  CHECK(index.segment_count() > 2);
  for (uint32_t row = 0; row < kRows; row += 2) index.Erase(RowIndex::Hash(ids[row]), row);
  for (uint32_t row = 0; row < kRows; ++row) {
    REQUIRE(index.Find(ids[row], RowIndex::Hash(ids[row])) == (row % 2 == 0 ? kNoRow : row));
  }
}

TEST_CASE("a slot encodes its row, its displacement and the bits of its window") {
  Random random(6);
  const uint64_t capacity = GENERATE(uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 20,
                                     (uint64_t{1} << 30) - 1, uint64_t{1} << 30);
  INFO("capacity " << capacity);
  const SlotCode code(capacity);
  for (uint32_t depth = 0; depth < 40; ++depth) {
    const uint64_t hash = random();
    const auto row = static_cast<uint32_t>(random.Below(capacity));
    const bool displaced = random.Below(2) != 0;
    const uint32_t slot = code.Encode(row, displaced, hash, code.WindowOf(depth));
    REQUIRE(code.RowOf(slot) == row);
    REQUIRE(code.Displaced(slot) == displaced);
    const uint32_t window = code.WindowOf(depth);
    for (uint32_t next = depth; code.WindowOf(next) == window; ++next) {
      REQUIRE(((slot & code.SplitMask(next)) != 0) == ((hash >> (63 - next) & 1) != 0));
    }
  }
}

TEST_CASE("ids with equal tags and buckets are distinguished") {
  IndexedIds indexed(20'000);
  for (uint32_t row = 0; row < 300; ++row) {
    indexed.Insert(IdOfHash(uint64_t{row} << 50 | 0x123456789abcULL), row);
  }
  for (uint32_t row = 0; row < 300; ++row) REQUIRE(indexed.Find(indexed.ids[row]) == row);
  REQUIRE(indexed.Find(IdOfHash(uint64_t{301} << 50 | 0x123456789abcULL)) == kNoRow);
}

}  // namespace
}  // namespace simurgh
