#include <vector>

#include <catch2/catch.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "table/arena.h"
#include "table/new_rows.h"
#include "table/table.h"

namespace simurgh {
namespace {

using Kind = AdmissionConfig::Kind;

uint32_t BucketOf(uint64_t id) { return static_cast<uint32_t>(Mix64(id) >> 48); }

// Ids of one bucket, from `from` on.
std::vector<uint64_t> IdsOfBucket(uint32_t bucket, size_t count, uint64_t from = 0) {
  std::vector<uint64_t> ids;
  for (uint64_t id = from; ids.size() < count; ++id) {
    if (BucketOf(id) == bucket) ids.push_back(id);
  }
  return ids;
}

TEST_CASE("admission by probability admits its share of ids, always the same ones") {
  const AdmissionConfig config{.kind = Kind::kProbability, .probability = 0.25F};
  Admission admission(config, "t", 1);
  Admission again(config, "t", 1);
  Admission other_seed(config, "t", 2);
  Admission other_table(config, "u", 1);
  constexpr uint64_t kIds = 100'000;
  uint64_t admitted = 0;
  uint64_t with_seed = 0;
  uint64_t with_table = 0;
  for (uint64_t id = 0; id < kIds; ++id) {
    const bool answer = admission.Admit(id);
    admitted += static_cast<uint64_t>(answer);
    REQUIRE(admission.Admit(id) == answer);
    REQUIRE(again.Admit(id) == answer);
    with_seed += static_cast<uint64_t>(answer && other_seed.Admit(id));
    with_table += static_cast<uint64_t>(answer && other_table.Admit(id));
  }
  // Within six deviations of a quarter, and of a quarter of that.
  CHECK(admitted == Approx(kIds / 4).margin(822));
  CHECK(with_seed == Approx(kIds / 16).margin(460));
  CHECK(with_table == Approx(kIds / 16).margin(460));
  Admission all({.kind = Kind::kProbability, .probability = 1.0F}, "t", 1);
  for (uint64_t id = 0; id < 1000; ++id) CHECK(all.Admit(id));
}

TEST_CASE("admission by occurrences creates the row at the n-th request") {
  const uint32_t occurrences = GENERATE(2U, 3U, 255U);
  Admission admission({.kind = Kind::kOccurrences, .occurrences = occurrences}, "t", 1);
  for (uint64_t id = 0; id < 100; ++id) {  // So few that none share a counter.
    for (uint32_t request = 1; request <= occurrences + 3; ++request) {
      REQUIRE(admission.Admit(id) == (request >= occurrences));
    }
  }
}

TEST_CASE("a crowded sketch admits too early, but never too late") {
  constexpr uint32_t kOccurrences = 4;
  Admission admission({.kind = Kind::kOccurrences, .occurrences = kOccurrences, .sketch_width = 64},
                      "t", 1);
  const std::vector<uint64_t> ids = IdsOfBucket(7, 100);
  size_t early = 0;
  for (uint32_t request = 1; request <= kOccurrences; ++request) {
    for (const uint64_t id : ids) {
      const bool answer = admission.Admit(id);
      if (request == kOccurrences) {
        REQUIRE(answer);
      } else {
        early += static_cast<size_t>(answer);
      }
    }
  }
  CHECK(early > 0);    // Otherwise this was no crowd.
  CHECK(early < 150);  // Out of 300.
}

TEST_CASE("an id's admission does not depend on ids of other buckets") {
  const AdmissionConfig config{.kind = Kind::kOccurrences, .occurrences = 3, .sketch_width = 16};
  Admission whole(config, "t", 1);
  Admission part(config, "t", 1);
  Random random(11);
  size_t admitted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t id = random.Below(50'000);
    const bool answer = whole.Admit(id);
    if (BucketOf(id) % 2 != 0) continue;
    REQUIRE(part.Admit(id) == answer);
    admitted += static_cast<size_t>(answer);
  }
  CHECK(admitted > 0);
  CHECK(part.bytes_used() < whole.bytes_used());
}

TEST_CASE("counts are halved after eight times the width of a sketch") {
  constexpr uint32_t kWidth = 64;
  const uint64_t id = IdsOfBucket(3, 1)[0];
  const uint64_t other = IdsOfBucket(3, 1, id + 1)[0];
  const auto admitted_after = [&](uint32_t others) {
    Admission admission({.kind = Kind::kOccurrences, .occurrences = 4, .sketch_width = kWidth}, "t",
                        1);
    for (int i = 0; i < 3; ++i) REQUIRE_FALSE(admission.Admit(id));
    for (uint32_t i = 0; i < others; ++i) admission.Admit(other);
    return admission.Admit(id);
  };
  CHECK(admitted_after(8 * kWidth - 4));        // The last request before they are.
  CHECK_FALSE(admitted_after(8 * kWidth - 3));  // 3 has become 1.
}

struct GatedTable {
  static TableConfig Config() {
    TableConfig config;
    config.name = "t";
    config.dim = 2;
    config.capacity_rows = 100;
    config.initializer = {.kind = InitializerConfig::Kind::kConstant, .value = 0.5F};
    config.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
    config.admission = {.kind = Kind::kOccurrences, .occurrences = 2};
    return config;
  }

  std::vector<float> Pull(const std::vector<uint64_t>& ids) {
    std::vector<float> rows(ids.size() * 2, -1.0F);
    counts = table.Pull(ids, {rows.data(), ids.size(), 2}, stamp++);
    return rows;
  }

  Arena arena = Arena::Create(Table::ReservationFor(Config())).value();
  Table table{Config(), 1, arena};
  PullReport counts;
  uint64_t stamp = 0;
};

TEST_CASE("a rejected id reads as zeros, and only its gradient is dropped") {
  GatedTable t;
  t.Pull({1, 3});
  CHECK(t.counts.rejected_admission == 2);
  // 2 is new, in the middle.
  CHECK(t.Pull({1, 2, 3}) == std::vector<float>{0.5F, 0.5F, 0.0F, 0.0F, 0.5F, 0.5F});
  CHECK(t.counts.created == 2);
  CHECK(t.counts.rejected_admission == 1);
  const std::vector<uint64_t> ids = {1, 2, 3};
  const std::vector<float> gradients = {1.0F, 2.0F, 16.0F, 32.0F, 3.0F, 4.0F};
  CHECK(t.table.Push(ids, {gradients.data(), 3, 2}, 0.125F, 0).updated == 2);
  // The second request for 2; every other gradient went to its own row.
  CHECK(t.Pull({3, 2, 1}) == std::vector<float>{0.125F, 0.0F, 0.5F, 0.5F, 0.375F, 0.25F});
  const TableStats stats = t.table.stats();
  CHECK(stats.rows == 3);
  CHECK(stats.created == 3);
  CHECK(stats.rejected_admission == 3);
  CHECK(stats.missing == 1);
}

TEST_CASE("evaluation does not count for admission") {
  GatedTable t;
  const std::vector<uint64_t> ids = {9, 9, 9};
  std::vector<float> rows(6);
  for (int i = 0; i < 3; ++i) CHECK(t.table.Evaluate(ids, {rows.data(), 3, 2}) == 0);
  CHECK(t.Pull({9}) == std::vector<float>{0.0F, 0.0F});
}

}  // namespace
}  // namespace simurgh
