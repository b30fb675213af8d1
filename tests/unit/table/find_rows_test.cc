#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/simd/pull_rows.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

TEST_CASE("a search in home buckets agrees with the full search, on every target") {
  const uint64_t seed = GENERATE(1, 2);
  // From one bucket to many segments; always full enough to displace entries.
  const uint64_t rows = GENERATE(0, 7, 60, 5000, 100'000);
  INFO("seed " << seed << ", rows " << rows);
  Random random(seed);
  Arena arena = Arena::Create(Arena::ReservationFor(RowIndex::ReservationFor(rows + 1))).value();
  std::vector<uint64_t> row_ids(rows + 1);
  RowIndex index(
      arena, rows + 1,
      RowField<uint64_t>(reinterpret_cast<const std::byte*>(row_ids.data()), sizeof(uint64_t)));
  for (uint32_t row = 0; row < rows; ++row) {
    row_ids[row] = random();
    index.Insert(RowIndex::Hash(row_ids[row]), row);
  }
  ForEachTarget([&] {
    size_t elsewhere = 0;
    for (const size_t size : {0, 1, 3, 31, 32, 33, 1000, 4099}) {
      std::vector<uint64_t> ids(size);
      for (uint64_t& id : ids) {
        const bool known = rows > 0 && random.Below(3) > 0;
        id = known ? row_ids[random.Below(rows)] : random();
      }
      std::vector<uint64_t> hashes(size);
      std::vector<uint32_t> candidates(size);
      std::vector<uint16_t> unsettled(size);
      const size_t open =
          FindAtHome(index.homes(), ids, hashes.data(), candidates.data(), unsettled.data());
      REQUIRE(open <= size);
      for (size_t i = 0; i < open; ++i) {
        REQUIRE(candidates[unsettled[i]] == kNoRow);
        candidates[unsettled[i]] = index.Candidate(hashes[unsettled[i]]);
        elsewhere += size_t{candidates[unsettled[i]] != kNoRow};
      }
      for (size_t i = 0; i < size; ++i) {
        REQUIRE(hashes[i] == RowIndex::Hash(ids[i]));
        REQUIRE(candidates[i] == index.Candidate(hashes[i]));
      }
    }
    CHECK((rows < 5000 || elsewhere > 0));
  });
}

}  // namespace
}  // namespace simurgh
