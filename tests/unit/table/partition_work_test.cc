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
    PullWork pull(*pieces, LookupMode::kTrain, step_id, {}, other.pulls);
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

// The first table evicts and the second one admits an id when it comes again, or neither.
std::vector<TableConfig> TablesThatRefuse(bool refuse) {
  std::vector<TableConfig> tables = TwoTables();
  if (!refuse) return tables;
  tables[0].capacity_rows = 150;
  tables[1].admission = {.kind = AdmissionConfig::Kind::kOccurrences, .occurrences = 3};
  return tables;
}

TEST_CASE("a pull that awaits pushes reads the same rows as a pull after them") {
  const uint64_t seed = GENERATE(1, 2, 3, 4);
  const uint32_t ranks = GENERATE(1U, 2U);
  // The first one of several ranks to pull would get the space of evicted rows.
  const bool refuse = ranks == 1 && GENERATE(false, true);
  CAPTURE(seed, refuse, ranks);
  Random random(seed);
  const auto after = Partition::Create(TablesThatRefuse(refuse), 1).value();
  const auto ahead = Partition::Create(TablesThatRefuse(refuse), 1).value();
  const auto step_id = [&](uint32_t rank, uint64_t step) -> StepId {
    return {.run = 1, .rank = rank, .step = step, .ranks = ranks, .order = PushOrder::kByRank};
  };
  const auto point_to_own = [](Request& request) {
    for (uint32_t t = 0; t < 2; ++t) {
      const uint32_t dim = TwoTables()[t].dim;
      const size_t ids = request.ids[t].size();
      request.pulls[t] = {t, request.ids[t], {request.numbers[t].data(), ids, dim}};
      request.pushes[t] = {t, 0.1F, request.ids[t], {request.numbers[t].data(), ids, dim}};
    }
  };
  // The ranks' requests of the step before, whose rows are their gradients.
  std::vector<Request> last;
  bool has_waited = false;
  bool has_read_ahead = false;
  for (uint64_t step = 0; step < 40; ++step) {
    std::vector<Request> expected;
    for (uint32_t rank = 0; rank < ranks; ++rank) expected.emplace_back(random, 200);
    std::vector<Request> actual = expected;
    for (Request& request : expected) point_to_own(request);
    for (Request& request : actual) point_to_own(request);
    for (Request& request : last) point_to_own(request);

    std::vector<std::unique_ptr<PullWork>> pulls;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      pulls.push_back(std::make_unique<PullWork>(*ahead, LookupMode::kTrain, step_id(rank, step),
                                                 NeededPushes{step == 0 ? 0 : step - 1, step},
                                                 actual[rank].pulls));
    }
    // Pieces of the pulls before and between those of the pushes.
    std::vector<bool> over(ranks, false);
    const auto advance_pulls = [&] {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        if (random.Below(2) == 0) continue;
        has_waited |= pulls[rank]->awaits_push();
        if (!over[rank] && pulls[rank]->Ready(30)) over[rank] = *pulls[rank]->Advance(30);
      }
    };
    const bool starts_before = random.Below(4) != 0;
    for (int i = 0; starts_before && i < 30; ++i) advance_pulls();
    if (step > 0) {
      for (uint32_t rank = 0; rank < ranks; ++rank) has_read_ahead |= over[rank];
    }
    for (uint32_t rank = 0; rank < last.size(); ++rank) {
      REQUIRE(testing::PushWhole(*after, step_id(rank, step - 1), last[rank].pushes).ok());
      PushWork push(*ahead, step_id(rank, step - 1), last[rank].pushes);
      while (!*push.Advance(1 + random.Below(60))) {
        if (starts_before) advance_pulls();
      }
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      REQUIRE(testing::PullWhole(*after, LookupMode::kTrain, step_id(rank, step), step,
                                 expected[rank].pulls)
                  .ok());
      while (!over[rank]) {
        REQUIRE(pulls[rank]->Ready(30));
        over[rank] = *pulls[rank]->Advance(30);
      }
      CHECK(actual[rank].numbers[0] == expected[rank].numbers[0]);
      CHECK(actual[rank].numbers[1] == expected[rank].numbers[1]);
    }
    REQUIRE(DigestOf(*ahead) == DigestOf(*after));
    last = std::move(expected);
  }
  CHECK(has_waited);
  // A pull without common rows needs no push.
  CHECK((has_read_ahead || refuse));
}

TEST_CASE("a pull between whose passes another run has pulled hides none of its rows") {
  const auto partition = Partition::Create(TwoTables(), 1).value();
  std::vector<float> numbers(6);
  const auto pull = [&](const std::vector<uint64_t>& ids) -> PullGroup {
    return {0, ids, {numbers.data(), ids.size(), 3}};
  };
  const std::vector<uint64_t> one = {1};
  const std::vector<uint64_t> both = {1, 2};
  const std::vector<uint64_t> two = {2};
  const PullGroup first = pull(one);
  const PullGroup second = pull(both);
  const PullGroup third = pull(two);
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {&first, 1}).ok());
  PullWork work(*partition, LookupMode::kTrain, {1, 0, 1}, {0, 1}, {&second, 1});
  CHECK_FALSE(*work.Advance(10));  // Row 2 is read, and row 1 awaits the push.
  CHECK(partition->table(0).stats().rows == 2);
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {2, 0, 0}, 0, {&first, 1}).ok());
  const PushGroup gradients{0, 0.1F, one, {numbers.data(), 1, 3}};
  REQUIRE(testing::PushWhole(*partition, {1, 0, 0}, {&gradients, 1}).ok());
  REQUIRE(work.Ready(10));
  REQUIRE(*work.Advance(10));
  // The push of step 1 will change row 2.
  PullWork next(*partition, LookupMode::kTrain, {1, 0, 2}, {1, 2}, {&third, 1});
  CHECK_FALSE(*next.Advance(10));
  CHECK(next.awaits_push());
}

TEST_CASE("a pull waits for pushes in progress, and reads everything late if it cannot know more") {
  const auto partition = Partition::Create(TwoTables(), 1).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> numbers(9);
  const PullGroup pull{0, ids, {numbers.data(), 3, 3}};
  const PushGroup group{0, 0.1F, ids, {numbers.data(), 3, 3}};
  // The rank's pull of step 0 has not come: rows that its push changes are not known.
  const std::vector<uint64_t> others = {7, 8, 9};
  std::vector<float> other_numbers(9);
  const PullGroup other{0, others, {other_numbers.data(), 3, 3}};
  PullWork blind(*partition, LookupMode::kTrain, {1, 0, 1}, {0, 1}, {&other, 1});
  CHECK_FALSE(*blind.Advance(10));
  CHECK(blind.awaits_push());
  CHECK(partition->table(0).stats().rows == 0);

  PushWork push(*partition, {1, 0, 0}, {&group, 1});
  CHECK_FALSE(*push.Advance(1));
  CHECK_FALSE(blind.Ready(10));  // The push has begun.
  CHECK(*push.Advance(10));
  REQUIRE(blind.Ready(10));
  CHECK(*blind.Advance(10));
  CHECK(partition->table(0).stats().rows == 3);
  // Nothing is left to wait for.
  PullWork late(*partition, LookupMode::kTrain, {1, 0, 1}, {1, 1}, {&pull, 1});
  CHECK(*late.Advance(10));
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
    PullWork work(*partition, mode, {1, 0, 0}, {.acknowledged_steps = acknowledged_steps},
                  {&group, 1});
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
  PullWork pull(*partition, LookupMode::kTrain, {old_start, 0, 1}, {}, request.pulls);
  PushWork push(*partition, {old_start, 0, 1}, request.pushes);
  PullWork evaluation(*partition, LookupMode::kEvaluate, {other}, {}, request.pulls);
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
