#include "table/push_window.h"

#include <set>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

bool Apply(PushWindow& window, uint64_t run, uint32_t rank, uint64_t step, uint32_t part,
           uint32_t parts) {
  const StatusOr<bool> applied = window.Applied(run, rank, step, part, parts);
  REQUIRE(applied.ok());
  if (*applied) return false;
  window.Record(run, rank, step, part, parts);
  return true;
}

TEST_CASE("pushes that come in any order and several times apply exactly once") {
  const uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  Random random(seed);
  PushWindow window;
  std::set<std::tuple<uint32_t, uint64_t, uint32_t>> applied;
  std::vector<uint64_t> complete(3, 0);
  const auto parts_of = [](uint64_t step) { return static_cast<uint32_t>(step % 64 + 1); };
  const auto step_done = [&](uint32_t rank, uint64_t step) {
    for (uint32_t part = 0; part < parts_of(step); ++part) {
      if (!applied.contains({rank, step, part})) return false;
    }
    return true;
  };
  for (int push = 0; push < 200'000; ++push) {
    const auto rank = static_cast<uint32_t>(random.Below(3));
    const uint64_t behind = std::min<uint64_t>(complete[rank], 3);
    const uint64_t step = complete[rank] - behind + random.Below(behind + 4);
    const auto part = static_cast<uint32_t>(random.Below(parts_of(step)));
    const bool fresh = applied.insert({rank, step, part}).second;
    REQUIRE(Apply(window, 9, rank, step, part, parts_of(step)) == fresh);
    while (step_done(rank, complete[rank])) ++complete[rank];
    REQUIRE(window.CheckAcknowledged(9, rank, complete[rank]).ok());
    REQUIRE_FALSE(window.CheckAcknowledged(9, rank, complete[rank] + 1).ok());
  }
  CHECK(complete[0] > 100);
}

TEST_CASE("a step far beyond the first incomplete one tells which steps are lost") {
  PushWindow window;
  for (uint64_t step = 0; step < 10; ++step) Apply(window, 1, 0, step, 0, 1);
  CHECK(Apply(window, 1, 0, 10 + RankWindow::kOpenSteps - 1, 0, 1));
  const auto beyond = window.Applied(1, 0, 10 + RankWindow::kOpenSteps, 0, 1);
  CHECK(beyond.status().code() == absl::StatusCode::kDataLoss);
  CHECK(beyond.status().message().find("steps 10..1033") != absl::string_view::npos);
  CHECK(window.Applied(1, 0, 9, 0, 1).value());
  // The gap closes and the window moves on.
  for (uint64_t step = 10; step < 10 + RankWindow::kOpenSteps - 1; ++step) {
    CHECK(Apply(window, 1, 0, step, 0, 1));
  }
  CHECK(window.CheckAcknowledged(1, 0, 10 + RankWindow::kOpenSteps).ok());
  CHECK(Apply(window, 1, 0, 10 + RankWindow::kOpenSteps, 0, 1));
  // An unknown trainer has lost everything before.
  CHECK(window.Applied(2, 0, 5000, 0, 1).status().code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 1).code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 0).ok());
}

TEST_CASE("parts outside their limits are refused and change nothing") {
  PushWindow window;
  for (const auto& [part, parts] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {1, 1}, {64, 64}, {0, 65}, {7, 3}}) {
    CHECK(window.Applied(1, 0, 0, part, parts).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK(Apply(window, 1, 0, 0, 63, 64));
  CHECK(window.Applied(1, 0, 0, 0, 2).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(window.trainer_count() == 1);
}

TEST_CASE("of many trainers the one that has not pushed longest is forgotten") {
  PushWindow window;
  for (uint64_t run = 0; run < PushWindow::kMaxTrainers; ++run) Apply(window, run, 0, 0, 0, 1);
  CHECK(Apply(window, 0, 0, 1, 0, 1));
  CHECK(Apply(window, 1'000'000, 0, 0, 0, 1));
  CHECK(window.trainer_count() == PushWindow::kMaxTrainers);
  CHECK(window.CheckAcknowledged(0, 0, 2).ok());
  CHECK(window.CheckAcknowledged(1, 0, 1).code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 1).ok());
}

}  // namespace
}  // namespace simurgh
