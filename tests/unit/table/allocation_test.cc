// A separate binary, because it counts every allocation in the process.

#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/partition.h"
#include "tests/support/allocation_count.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

TEST_CASE("pulls, evictions and pushes of a full partition do not allocate") {
  constexpr size_t kIds = 500;
  constexpr uint32_t kDim = 8;
  TableConfig config;
  config.name = "t";
  config.dim = kDim;
  config.capacity_rows = GENERATE(100, 20'000);
  auto partition = Partition::Create({config}, 1).value();
  Random random(1);
  std::vector<uint64_t> ids(kIds);
  std::vector<float> values(kIds * kDim);
  const MatrixView<float> matrix(values.data(), kIds, kDim);
  const PullGroup pull{0, ids, matrix};
  const PushGroup push{0, 0.01F, ids, matrix};
  const auto train = [&](uint64_t steps, uint64_t& step) {
    bool ok = true;
    for (const uint64_t end = step + steps; step < end; ++step) {
      for (uint64_t& id : ids) {
        id = static_cast<uint64_t>(100'000 * random.Uniform() * random.Uniform());
      }
      const StepId step_id{1, 0, step};
      ok = ok && testing::PullWhole(*partition, LookupMode::kTrain, step_id, step, {&pull, 1}).ok();
      ok = ok &&
           testing::PullWhole(*partition, LookupMode::kEvaluate, step_id, step, {&pull, 1}).ok();
      ok = ok && testing::PushWhole(*partition, step_id, {&push, 1}).ok();
    }
    return ok;
  };
  uint64_t step = 0;
  REQUIRE(train(500, step));
  const TableStats before = partition->table(0).stats();
  REQUIRE(before.rows == config.capacity_rows);
  static_cast<void>(testing::TakeAllocations());
  const bool ok = train(2000, step);
  const testing::Allocations allocated = testing::TakeAllocations();
  REQUIRE(ok);
  CHECK(allocated.count == 0);
  const TableStats after = partition->table(0).stats();
  CHECK(after.evicted > before.evicted + 10'000);
  // The queue may still fill a few chunks of 64 bytes that it never needed at once before.
  CHECK(after.bytes <= before.bytes + uint64_t{256} * 64);
}

}  // namespace
}  // namespace simurgh
