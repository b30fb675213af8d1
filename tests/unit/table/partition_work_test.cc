#include <map>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "base/step_id.h"
#include "table/memory_budget.h"
#include "table/partition.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

std::vector<TableConfig> TwoTables() {
  TableConfig narrow;
  narrow.name = "narrow";
  narrow.dim = 3;
  narrow.capacity_rows = 4'000;
  TableConfig wide = narrow;
  wide.name = "wide";
  wide.dim = 20;
  wide.precision = RowPrecision::kBf16;
  return {narrow, wide};
}

uint64_t DigestOf(const Partition& partition) {
  return partition.table(0).ContentDigest() + partition.table(1).ContentDigest();
}

// Ids of both tables with room for their rows, which then serve as gradients.
struct Request {
  Request(Random& random, size_t max_ids) {
    const auto tables = TwoTables();
    for (uint32_t t = 0; t < 2; ++t) {
      // Distinct ids of the same few hundred, so that requests meet.
      const uint64_t first = random.Below(300);
      for (uint64_t i = 0; i < random.Below(max_ids); ++i) ids[t].push_back(first + i);
      numbers[t].resize(ids[t].size() * tables[t].dim);
      for (float& number : numbers[t]) number = static_cast<float>(random.Normal());
      const EncodedRows rows(numbers[t].data(), ids[t].size(), tables[t].dim);
      pulls.push_back({t, ids[t], rows});
      const EncodedGradients gradients(numbers[t].data(), ids[t].size(), tables[t].dim);
      pushes.push_back({t, 0.1F, ids[t], gradients});
    }
  }

  std::vector<uint64_t> ids[2];
  std::vector<float> numbers[2];
  std::vector<PullGroup> pulls;
  std::vector<PushGroup> pushes;
};

TEST_CASE("requests in pieces leave the same rows as requests done at once") {
  const uint64_t seed = 7;
  CAPTURE(seed);
  Random random(seed);
  const auto whole = Partition::Create(TwoTables(), 1).value();
  const auto pieces = Partition::Create(TwoTables(), 1).value();
  for (uint64_t step = 0; step < 60; ++step) {
    const StepId step_id{.run = 1, .rank = 0, .step = step};
    Request one(random, 200);
    Request other = one;
    for (uint32_t t = 0; t < 2; ++t) {
      const uint32_t dim = TwoTables()[t].dim;
      other.pulls[t] = {t, other.ids[t], {other.numbers[t].data(), other.ids[t].size(), dim}};
      other.pushes[t].ids = other.ids[t];
      other.pushes[t].gradients = {other.numbers[t].data(), other.ids[t].size(), dim};
    }
    const PullReport pulled =
        *testing::PullWhole(*whole, LookupMode::kTrain, step_id, 0, one.pulls);
    PullWork pull(*pieces, LookupMode::kTrain, step_id, 0, other.pulls);
    while (!*pull.Advance(1 + random.Below(50))) {
    }
    CHECK(pull.report().found == pulled.found);
    CHECK(pull.report().created == pulled.created);
    CHECK(other.numbers[0] == one.numbers[0]);
    CHECK(other.numbers[1] == one.numbers[1]);
    const PushReport pushed = *testing::PushWhole(*whole, step_id, one.pushes);
    PushWork push(*pieces, step_id, other.pushes);
    while (!*push.Advance(1 + random.Below(50))) {
    }
    CHECK(push.report().updated == pushed.updated);
    REQUIRE(DigestOf(*pieces) == DigestOf(*whole));
  }
}

TEST_CASE("interleaved pushes of different rows leave the same rows as sequential ones") {
  const uint64_t seed = 11;
  CAPTURE(seed);
  Random random(seed);
  const auto apart = Partition::Create(TwoTables(), 1).value();
  const auto mixed = Partition::Create(TwoTables(), 1).value();
  std::vector<uint64_t> ids[2];
  std::vector<float> numbers[2];
  std::vector<PushGroup> groups[2];
  for (uint64_t c = 0; c < 2; ++c) {
    for (uint64_t i = 0; i < 700; ++i) ids[c].push_back(2 * i + c);
    numbers[c].resize(ids[c].size() * 3);
    for (float& number : numbers[c]) number = static_cast<float>(random.Normal());
    for (Partition* partition : {apart.get(), mixed.get()}) {
      std::vector<float> rows(numbers[c].size());
      const PullGroup pull{0, ids[c], {rows.data(), ids[c].size(), 3}};
      REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {&pull, 1}).ok());
    }
    groups[c] = {{0, 0.1F, ids[c], {numbers[c].data(), ids[c].size(), 3}}};
  }
  PushWork first(*mixed, {1, 0, 0}, groups[0]);
  PushWork second(*mixed, {1, 1, 0}, groups[1]);
  bool over[2] = {false, false};
  while (!over[0] || !over[1]) {
    if (!over[0]) over[0] = *first.Advance(64);
    REQUIRE(second.Ready());
    if (!over[1]) over[1] = *second.Advance(64);
  }
  REQUIRE(testing::PushWhole(*apart, {1, 0, 0}, groups[0]).ok());
  REQUIRE(testing::PushWhole(*apart, {1, 1, 0}, groups[1]).ok());
  CHECK(DigestOf(*mixed) == DigestOf(*apart));
}

TEST_CASE("a repetition of a push in progress waits, and is then reported as repeated") {
  const auto partition = Partition::Create(TwoTables(), 1).value();
  Random random(3);
  Request request(random, 200);
  while (request.ids[0].size() < 20) request = Request(random, 200);
  REQUIRE(
      testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {request.pulls.data(), 1})
          .ok());
  const std::span<const PushGroup> groups(request.pushes.data(), 1);
  PushWork push(*partition, {1, 0, 0}, groups);
  CHECK_FALSE(*push.Advance(10));
  PushWork again(*partition, {1, 0, 0}, groups);
  PushWork other(*partition, {1, 0, 1}, groups);
  CHECK_FALSE(again.Ready());
  CHECK(other.Ready());
  while (!*push.Advance(10)) CHECK_FALSE(again.Ready());
  REQUIRE(again.Ready());
  const uint64_t digest = DigestOf(*partition);
  CHECK(*again.Advance(10));
  CHECK(again.report().repeated);
  CHECK(again.report().updated == 0);
  CHECK(DigestOf(*partition) == digest);
}

TEST_CASE("a push whose trainer is forgotten between its pieces is completed") {
  const auto partition = Partition::Create(TwoTables(), 1).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> numbers(9);
  const PushGroup group{0, 0.1F, ids, {numbers.data(), 3, 3}};
  PushWork push(*partition, {1, 0, 0}, {&group, 1});
  CHECK_FALSE(*push.Advance(1));
  for (uint32_t rank = 1; rank < 600; ++rank)
    REQUIRE(testing::PushWhole(*partition, {1, rank, 0}, {}).ok());
  CHECK(*push.Advance(10));
  CHECK(push.report().missing == 3);
}

TEST_CASE("pushes interleave where the arena is in a file") {
  const auto partition =
      Partition::Create(TwoTables(), 1, nullptr, {.arena_directory = "/dev/shm"}).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> numbers(9);
  const PushGroup group{0, 0.1F, ids, {numbers.data(), 3, 3}};
  PushWork first(*partition, {1, 0, 0}, {&group, 1});
  PushWork second(*partition, {1, 1, 0}, {&group, 1});
  CHECK_FALSE(*first.Advance(1));
  REQUIRE(second.Ready());
  CHECK_FALSE(*second.Advance(1));
  CHECK(*first.Advance(2));
  CHECK(*second.Advance(2));
}

TEST_CASE("a pull distinguishes a full table with when_full: stop from other failures") {
  std::vector<TableConfig> tables = TwoTables();
  tables[0].capacity_rows = 2;
  tables[0].when_full = WhenFull::kStop;
  const auto partition = Partition::Create(tables, 1).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> numbers(9);
  const auto pull = [&](LookupMode mode, size_t count, uint64_t acknowledged_steps) {
    const PullGroup group{0, std::span(ids).first(count), {numbers.data(), count, 3}};
    PullWork work(*partition, mode, {1, 0, 0}, acknowledged_steps, {&group, 1});
    const Status status = work.Advance(10).status();
    CHECK(work.stopped_by_full_table() == absl::IsFailedPrecondition(status));
    return status.code();
  };
  CHECK(pull(LookupMode::kTrain, 2, 0) == absl::StatusCode::kOk);
  CHECK(pull(LookupMode::kTrain, 2, 1) == absl::StatusCode::kDataLoss);
  CHECK(pull(LookupMode::kEvaluate, 3, 0) == absl::StatusCode::kOk);
  CHECK(pull(LookupMode::kTrain, 3, 0) == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a partition that is cleared forgets rows and pushes, and ends those of older starts") {
  const uint64_t old_start = RunNumber(1, 7);
  const uint64_t new_start = RunNumber(2, 7);
  const uint64_t other = RunNumber(1, 8);
  Random random(3);
  const auto fresh = Partition::Create(TwoTables(), 1).value();
  const auto partition = Partition::Create(TwoTables(), 1).value();
  Request request(random, 100);
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {old_start}, 0, request.pulls).ok());
  REQUIRE(testing::PushWhole(*partition, {old_start, 0, 0}, request.pushes).ok());
  // In progress, in pieces.
  PullWork pull(*partition, LookupMode::kTrain, {old_start, 0, 1}, 0, request.pulls);
  PushWork push(*partition, {old_start, 0, 1}, request.pushes);
  PullWork evaluation(*partition, LookupMode::kEvaluate, {other}, 0, request.pulls);
  REQUIRE_FALSE(*pull.Advance(1));
  REQUIRE_FALSE(*push.Advance(1));
  REQUIRE_FALSE(*evaluation.Advance(1));

  REQUIRE(partition->Clear(new_start).ok());
  CHECK(DigestOf(*partition) == DigestOf(*fresh));
  const Status ended = push.Advance(1'000).status();
  CHECK(absl::IsFailedPrecondition(ended));
  CHECK_THAT(std::string(ended.message()), Catch::Contains("generation 2, has taken over"));
  CHECK(absl::IsFailedPrecondition(pull.Advance(1'000).status()));
  CHECK(absl::IsFailedPrecondition(
      testing::PullWhole(*partition, LookupMode::kTrain, {old_start}, 0, request.pulls).status()));
  CHECK(*evaluation.Advance(1'000));
  CHECK(partition->table(0).stats().rows == 0);

  for (Partition* const one : {fresh.get(), partition.get()}) {
    REQUIRE(testing::PullWhole(*one, LookupMode::kTrain, {new_start}, 0, request.pulls).ok());
    CHECK_FALSE(testing::PushWhole(*one, {new_start, 0, 0}, request.pushes)->repeated);
  }
  CHECK(DigestOf(*partition) == DigestOf(*fresh));
}

TEST_CASE("a partition that is cleared returns its memory to the budget") {
  uint64_t resident = 0;
  MemoryBudget budget(1 << 20, 0, [&] { return resident; });
  const auto partition = Partition::Create(TwoTables(), 1, &budget).value();
  Random random(3);
  Request request(random, 300);
  for (uint64_t start = 1; start < 100; ++start) {
    const PullReport report =
        testing::PullWhole(*partition, LookupMode::kTrain, {RunNumber(start, 7)}, 0, request.pulls)
            .value();
    REQUIRE(report.rejected_full == 0);
    REQUIRE(partition->Clear(RunNumber(start + 1, 7)).ok());
  }
}

}  // namespace
}  // namespace simurgh
