#include "table/push_window.h"

#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

bool Apply(PushWindow& window, uint64_t run, uint32_t rank, uint64_t step) {
  const StatusOr<bool> applied = window.Applied(run, rank, step);
  REQUIRE(applied.ok());
  if (*applied) return false;
  window.Record(run, rank, step);
  return true;
}

TEST_CASE("pushes that arrive in any order and several times apply exactly once", "[minutes]") {
  const uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  Random random(seed);
  PushWindow window;
  std::set<std::pair<uint32_t, uint64_t>> applied;
  std::vector<uint64_t> complete(3, 0);
  for (int push = 0; push < 200'000; ++push) {
    const auto rank = static_cast<uint32_t>(random.Below(3));
    const uint64_t behind = std::min<uint64_t>(complete[rank], 3);
    const uint64_t ahead = random.Below(1000) == 0 ? PushWindow::kOpenSteps : 4;
    const uint64_t step = complete[rank] - behind + random.Below(behind + ahead);
    const bool fresh = applied.insert({rank, step}).second;
    if (Apply(window, 9, rank, step) != fresh) FAIL("push " << push);
    while (applied.contains({rank, complete[rank]})) ++complete[rank];
    if (!window.CheckAcknowledged(9, rank, complete[rank]).ok() ||
        window.CheckAcknowledged(9, rank, complete[rank] + 1).ok() ||
        !window.HasFirst(9, rank, complete[rank]) || window.HasFirst(9, rank, complete[rank] + 1)) {
      FAIL("push " << push);
    }
  }
  CHECK(complete[0] > 100);
}

TEST_CASE("a rank that has begun elsewhere may miss steps, and the others apply exactly once") {
  const uint64_t begin = GENERATE(3, 900, 50'000);
  Random random(begin);
  PushWindow window;
  window.BeginAnywhere(9, 0);
  std::set<uint64_t> applied;
  uint64_t newest = begin;
  for (int push = 0; push < 20'000; ++push) {
    newest += random.Below(3);
    const uint64_t step = newest - std::min<uint64_t>(newest, random.Below(64));
    REQUIRE(window.CheckAcknowledged(9, 0, step).ok());
    REQUIRE(Apply(window, 9, 0, step) == applied.insert(step).second);
  }
  // Another rank must not.
  CHECK_FALSE(window.CheckAcknowledged(9, 1, begin).ok());
}

TEST_CASE("a rank that begins at a step has pushed all earlier ones") {
  constexpr uint64_t kStep = 5 * PushWindow::kOpenSteps + 3;
  PushWindow window;
  for (uint32_t rank = 0; rank < 2; ++rank) window.BeginAt(4, rank, kStep);
  CHECK(window.CheckAcknowledged(4, 1, kStep) == absl::OkStatus());
  CHECK(absl::IsDataLoss(window.CheckAcknowledged(4, 1, kStep + 1)));
  CHECK_FALSE(Apply(window, 4, 1, kStep - 1));
  CHECK(Apply(window, 4, 1, kStep + 1));
  CHECK(Apply(window, 4, 1, kStep));
  CHECK_FALSE(Apply(window, 4, 1, kStep));
  CHECK(window.CheckAcknowledged(4, 1, kStep + 2) == absl::OkStatus());
  // Another run begins at 0.
  CHECK(absl::IsDataLoss(window.CheckAcknowledged(5, 0, 1)));
}

TEST_CASE("a step far beyond the first missing one reports the lost steps") {
  PushWindow window;
  for (uint64_t step = 0; step < 10; ++step) Apply(window, 1, 0, step);
  CHECK(Apply(window, 1, 0, 10 + PushWindow::kOpenSteps - 1));
  const auto beyond = window.Applied(1, 0, 10 + PushWindow::kOpenSteps);
  CHECK(beyond.status().code() == absl::StatusCode::kDataLoss);
  CHECK(beyond.status().message().find("steps 10..1033") != absl::string_view::npos);
  CHECK(window.Applied(1, 0, 9).value());
  // The gap closes and the window moves on.
  for (uint64_t step = 10; step < 10 + PushWindow::kOpenSteps - 1; ++step) {
    CHECK(Apply(window, 1, 0, step));
  }
  CHECK(window.CheckAcknowledged(1, 0, 10 + PushWindow::kOpenSteps).ok());
  CHECK(Apply(window, 1, 0, 10 + PushWindow::kOpenSteps));
  // An unknown trainer has lost everything before.
  CHECK(window.Applied(2, 0, 5000).status().code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 1).code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 0).ok());
}

TEST_CASE("the trainer with the oldest push is forgotten first") {
  PushWindow window;
  for (uint64_t run = 0; run < kMaxRanks; ++run) Apply(window, run, 0, 0);
  CHECK(Apply(window, 0, 0, 1));
  CHECK(Apply(window, 1'000'000, 0, 0));
  CHECK(window.CheckAcknowledged(0, 0, 2).ok());
  CHECK(window.CheckAcknowledged(1, 0, 1).code() == absl::StatusCode::kDataLoss);
  CHECK(window.CheckAcknowledged(2, 0, 1).ok());
}

}  // namespace
}  // namespace simurgh
