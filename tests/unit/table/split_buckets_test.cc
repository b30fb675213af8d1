#include "table/simd/split_buckets.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

// The content of a bucket; row numbers of empty slots are ignored.
bool SameEntries(const IndexBucket& a, const IndexBucket& b) {
  for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
    if (a.tags[slot] != b.tags[slot]) return false;
    if (a.tags[slot] != 0 && a.rows[slot] != b.rows[slot]) return false;
  }
  return a.overflow == b.overflow;
}

IndexBucket RandomBucket(uint32_t full_slots, Random& random) {
  IndexBucket bucket;
  for (uint32_t slot = 0; slot < IndexBucket::kSlots; ++slot) {
    bucket.tags[slot] = static_cast<uint16_t>(
        random.Below(IndexBucket::kSlots) < full_slots ? 1 + random.Below(0xffff) : 0);
    bucket.rows[slot] = static_cast<uint32_t>(random());
  }
  bucket.overflow = static_cast<uint32_t>(random.Below(5));
  return bucket;
}

TEST_CASE("splitting buckets agrees with the reference, on every target") {
  const uint32_t full_slots = GENERATE(0, 1, 4, 8, 10);
  const SplitMasks masks =
      GENERATE(SplitMasks{1U << 20, 1U << 31}, SplitMasks{1, 2}, SplitMasks{1U << 30, 1U << 31});
  // Whether every second entry is displaced, or none.
  const bool displaced = GENERATE(false, true);
  const uint64_t seed = GENERATE(1, 2);
  INFO("seed " << seed << ", slots " << full_slots);
  Random random(seed);
  ForEachTarget([&] {
    size_t displaced_entries = 0;
    for (const size_t count : {0, 1, 7, 8, 9, 50}) {
      std::vector<IndexBucket> low(count);
      std::vector<IndexBucket> high(count + 1);  // One that must stay as it is.
      for (IndexBucket& bucket : low) {
        bucket = RandomBucket(full_slots, random);
        for (uint32_t& code : bucket.rows) code &= ~(displaced ? 0 : masks.displaced);
      }
      for (IndexBucket& bucket : high) bucket = RandomBucket(full_slots, random);
      std::vector<uint32_t> displaced_codes(count * IndexBucket::kSlots + 1, 7);
      std::vector<IndexBucket> expected_low = low;
      std::vector<IndexBucket> expected_high = high;
      std::vector<uint32_t> expected_codes = displaced_codes;
      const SplitCounts expected =
          SplitBucketsReference(masks, expected_low, expected_high.data(), expected_codes.data());
      const SplitCounts actual = SplitBuckets(masks, low, high.data(), displaced_codes.data());
      REQUIRE(actual.low == expected.low);
      REQUIRE(actual.high == expected.high);
      REQUIRE(actual.displaced == expected.displaced);
      displaced_entries += actual.displaced;
      REQUIRE(displaced_codes == expected_codes);
      REQUIRE(std::ranges::equal(low, expected_low, SameEntries));
      REQUIRE(std::ranges::equal(high, expected_high, SameEntries));
    }
    REQUIRE((displaced_entries > 0) == (displaced && full_slots > 0));
  });
}

}  // namespace
}  // namespace simurgh
