
#include <catch2/catch.hpp>

#include "tests/support/waiting.h"
#include "tests/unit/collective/rank_threads.h"
#include "train/rank_monitor.h"

namespace simurgh::testing {
namespace {

TEST_CASE("Ranks that exchange their staleness report that of all") {
  constexpr uint32_t kRanks = 3;
  constexpr uint32_t kSum = 1 + 2 + 4;
  std::vector<uint32_t> afterwards(kRanks);
  const auto statuses = RunRanks(kRanks, [&](std::unique_ptr<Collective>& collective) -> Status {
    RankHeartbeat heartbeat(*collective, Channel::kWatch, [] {});
    const uint32_t own = 1U << collective->rank();
    testing::Eventually([&] { return !(heartbeat.SumStaleness(own) != kSum); });
    // A rank finishes only after all have received the sum.
    std::vector<std::byte> all(kRanks);
    SIMURGH_RETURN_IF_ERROR(collective->Gather(Channel::kStep, std::vector<std::byte>(1), all));
    SIMURGH_RETURN_IF_ERROR(heartbeat.AwaitAll());
    afterwards[collective->rank()] = heartbeat.SumStaleness(own);
    return absl::OkStatus();
  });
  for (const Status& status : statuses) CHECK(status == absl::OkStatus());
  CHECK(afterwards == std::vector<uint32_t>{1, 2, 4});
}

}  // namespace
}  // namespace simurgh::testing
