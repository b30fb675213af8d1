#include <functional>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch.h"

namespace simurgh {
namespace {

// Two features of three samples: {7}, {7, 8}, {} and {}, {9, 9}, {5}.
CompactBatch Example() {
  return {.batch_size = 3,
          .ids = {7, 8, 9, 5},
          .occurrences = {0, 0, 1, 0, 0, 1},
          .offsets = {0, 1, 3, 3, 3, 5, 6},
          .unique_ends = {2, 4}};
}

TEST_CASE("A feature view shows its own ids, occurrences and samples") {
  const CompactBatch batch = Example();
  REQUIRE(batch.Validate().ok());
  const FeatureView second = batch.feature(1);
  CHECK(std::vector(second.ids.begin(), second.ids.end()) == std::vector<uint64_t>{9, 5});
  CHECK(second.occurrences.size() == 3);
  CHECK(second.offsets.size() == 4);
  CHECK(second.sample(0).empty());
  CHECK(second.sample(1).size() == 2);
  REQUIRE(second.sample(2).size() == 1);
  CHECK(second.ids[second.sample(2)[0]] == 5);
}

TEST_CASE("Features may share a list and occurrences may have weights") {
  const CompactBatch batch = {.batch_size = 2,
                              .ids = {7, 8, 3, 9},
                              .occurrences = {0, 1, 0, 2, 1},
                              .offsets = {0, 1, 2, 2, 3, 4, 5},
                              .unique_ends = {2, 4},
                              .lists = {0, 1, 0},
                              .weights = {1, 2, 3, 4, 5}};
  CHECK(batch.Validate().message() ==
        "batch: feature 2: occurrence of id number 2, must be below 2");
  CompactBatch good = batch;
  good.occurrences[3] = 0;
  REQUIRE(good.Validate().ok());
  REQUIRE(good.feature_count() == 3);
  const FeatureView shared = good.feature(2);
  CHECK(shared.first_id == 0);
  CHECK(shared.ids.data() == good.ids.data());
  CHECK(shared.ids[shared.sample(1)[0]] == 8);
  CHECK(std::vector(shared.weights.begin(), shared.weights.end()) == std::vector<float>{4, 5});
  CHECK(good.feature(1).first_id == 2);
}

TEST_CASE("Empty batches are valid") {
  CompactBatch batch;
  batch.offsets = {0};
  CHECK(batch.Validate().ok());
  batch.unique_ends = {0, 0};  // Features without samples.
  REQUIRE(batch.Validate().ok());
  CHECK(batch.feature(1).ids.empty());
  batch.unique_ends.clear();  // Samples without features.
  batch.batch_size = 5;
  CHECK(batch.Validate().ok());
}

TEST_CASE("Validate names every violation") {
  struct Violation {
    const char* message;
    std::function<void(CompactBatch&)> commit;
  };
  const Violation violation = GENERATE(values<Violation>({
      {"65536 samples exceed the limit of 65535", [](auto& b) { b.batch_size = 65'536; }},
      {"10000001 occurrences exceed", [](auto& b) { b.occurrences.resize(10'000'001); }},
      {"10000001 ids exceed", [](auto& b) { b.ids.resize(10'000'001); }},
      {"7 offsets, 2 features of 4 samples need 9", [](auto& b) { b.batch_size = 4; }},
      {"0 offsets", [](auto& b) { b.offsets.clear(); }},
      {"the first offset is 1", [](auto& b) { b.offsets[0] = 1; }},
      {"feature 0: offset 2 is 0, below its predecessor 1", [](auto& b) { b.offsets[2] = 0; }},
      {"feature 1: offset 4 is 2, below its predecessor 3", [](auto& b) { b.offsets[4] = 2; }},
      {"the last offset is 7", [](auto& b) { b.offsets[6] = 7; }},
      {"the last offset is 6, must be the number of occurrences, 5",
       [](auto& b) { b.occurrences.pop_back(); }},
      {"list 1: its ids end at 1", [](auto& b) { b.unique_ends[1] = 1; }},
      {"ids end at 3, must be the number of ids, 4", [](auto& b) { b.unique_ends[1] = 3; }},
      {"ids end at 4, must be the number of ids, 5", [](auto& b) { b.ids.push_back(1); }},
      {"feature 0: occurrence of id number 2, must be below 2",
       [](auto& b) { b.occurrences[1] = 2; }},
      {"feature 1: occurrence of id number 4294967295", [](auto& b) { b.occurrences[5] = ~0U; }},
      {"2 samples of 33554433 features exceed the limit of 67108864 cells",
       [](auto& b) {
         b.batch_size = 2;
         b.unique_ends.resize(33'554'433);
       }},
      {"feature 0: reads list 1 of 2, expected at most 0", [](auto& b) { b.lists = {1, 0}; }},
      {"feature 1: reads list 2 of 2, expected at most 1", [](auto& b) { b.lists = {0, 2}; }},
      {"no feature reads list 1", [](auto& b) { b.lists = {0, 0}; }},
      {"5 weights of 6 occurrences", [](auto& b) { b.weights = {1, 1, 1, 1, 1}; }},
      {"the weight of occurrence 2 is not finite",
       [](auto& b) { b.weights = {1, 1, std::numeric_limits<float>::infinity(), 1, 1, 1}; }},
  }));
  CompactBatch batch = Example();
  violation.commit(batch);
  const Status status = batch.Validate();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Contains(violation.message));
}

// Whatever Validate accepts must be readable to the last element; the sanitizers watch.
TEST_CASE("Random arrays are refused or safe to read") {
  size_t accepted = 0;
  for (uint64_t seed = 1; seed <= 200'000; ++seed) {
    Random random(seed);
    CompactBatch batch;
    batch.batch_size = static_cast<uint32_t>(random.Below(4));
    batch.ids.resize(random.Below(4));
    const auto fill = [&random](std::vector<uint32_t>& values, size_t size, uint64_t bound) {
      values.resize(size);
      uint64_t sum = 0;
      for (uint32_t& value : values) {
        value = static_cast<uint32_t>(random.Below(64) == 0 ? random() : sum);
        sum += random.Below(bound);
      }
    };
    fill(batch.unique_ends, random.Below(3), 3);
    fill(batch.offsets, batch.batch_size * batch.unique_ends.size() + random.Below(8) / 7 * 3 + 1,
         2);
    fill(batch.occurrences, random.Below(4), 2);
    if (!batch.Validate().ok()) continue;
    ++accepted;
    uint64_t read = 0;
    for (size_t f = 0; f < batch.feature_count(); ++f) {
      const FeatureView view = batch.feature(f);
      for (size_t b = 0; b < batch.batch_size; ++b) {
        for (const uint32_t occurrence : view.sample(b)) {
          read += view.ids[occurrence] + 1;
        }
      }
    }
    INFO("seed " << seed);
    REQUIRE(read == batch.occurrences.size());  // All ids are 0; every occurrence read once.
  }
  CHECK(accepted > 1'000);
}

}  // namespace
}  // namespace simurgh
