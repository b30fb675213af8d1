#include <array>
#include <set>

#include <catch2/catch.hpp>

#include "data/processing/feature_ids.h"

namespace simurgh {
namespace {

TEST_CASE("Rows agree with PERSIA's vector for 10 buckets and 2 rounds") {
  struct Row {
    uint64_t id;
    std::array<uint64_t, 2> rows;
  };
  for (const Row& expected : {Row{12, {2, 18}}, Row{23, {5, 10}}, Row{34, {0, 11}},
                              Row{56, {6, 17}}, Row{78, {7, 12}}, Row{90, {8, 16}}}) {
    std::array<uint64_t, 2> rows{};
    HashStackRows({.rounds = 2, .buckets = 10}, expected.id, rows);
    CHECK(rows == expected.rows);
  }
}

TEST_CASE("Every round has separate rows, and two rounds distinguish ids") {
  constexpr uint64_t kBuckets = 1'000;
  std::set<std::array<uint64_t, 2>> seen;
  for (uint64_t id = 0; id < 10'000; ++id) {
    std::array<uint64_t, 2> rows{};
    HashStackRows({.rounds = 2, .buckets = kBuckets}, id, rows);
    REQUIRE(rows[0] < kBuckets);
    REQUIRE(rows[1] >= kBuckets);
    REQUIRE(rows[1] < 2 * kBuckets);
    seen.insert(rows);
  }
  // With two rounds of 1,000 rows, about 50 of 10,000 ids share both rows; with one round 9,000
  // would.
  CHECK(seen.size() > 9'850);
}

}  // namespace
}  // namespace simurgh
