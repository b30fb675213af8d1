// Fills a file system of a few MiB, mounted in a private mount namespace.

#include <string>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "table/partition.h"
#include "tests/support/skip.h"
#include "tests/support/small_file_system.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

constexpr uint32_t kDim = 64;
constexpr size_t kIds = 500;
constexpr uint64_t kPulls = 60;  // 16 MB.

// How a child ends.
enum Ending { kAsItShould, kNoMounts, kNoPartition, kWrongPull, kWrongCounts, kNoPush };

bool MountSmall(const std::string& directory) { return MountSmallFileSystem(directory, 8); }

// With more rows than the file system has room for.
TableConfig Roomy(WhenFull when_full) {
  TableConfig config;
  config.name = "t";
  config.dim = kDim;
  config.capacity_rows = 1'000'000;
  config.when_full = when_full;
  return config;
}

// Pulls fresh ids again and again, more than there is room for.
Ending PullTooMuch(const std::string& directory, WhenFull when_full) {
  if (!MountSmall(directory)) return kNoMounts;
  const TableConfig config = Roomy(when_full);
  auto partition = Partition::Create({config}, 1, nullptr, {.arena_directory = directory});
  if (!partition.ok()) return kNoPartition;
  std::vector<uint64_t> ids(kIds);
  std::vector<float> rows(kIds * kDim);
  for (uint64_t step = 0; step < kPulls; ++step) {
    for (size_t i = 0; i < kIds; ++i) ids[i] = step * kIds + i;
    const PullGroup pull{0, ids, {rows.data(), kIds, kDim}};
    const auto report =
        testing::PullWhole(**partition, LookupMode::kTrain, {1, 0, step}, step, {&pull, 1});
    if (!report.ok()) {
      const bool explained = report.status().code() == absl::StatusCode::kFailedPrecondition &&
                             report.status().message().find("file system") != std::string::npos;
      return when_full == WhenFull::kStop && explained ? kAsItShould : kWrongPull;
    }
    const PushGroup push{0, 0.1F, ids, {rows.data(), kIds, kDim}};
    if (!testing::PushWhole(**partition, {1, 0, step}, {&push, 1}).ok()) return kNoPush;
  }
  const TableStats stats = (*partition)->table(0).stats();
  const uint64_t lost = when_full == WhenFull::kEvict
                            ? stats.evicted_for[static_cast<size_t>(EvictionCause::kMemory)]
                            : stats.rejected_full;
  const bool right = stats.rows >= 4000 && stats.rows + lost == kPulls * kIds;
  return when_full != WhenFull::kStop && right ? kAsItShould : kWrongCounts;
}

// Fills it, lets all rows but the last pull's expire, and then wants as many fresh ones again.
Ending FillAgainWhatExpired(const std::string& directory, WhenFull when_full) {
  if (!MountSmall(directory)) return kNoMounts;
  TableConfig config = Roomy(when_full);
  config.eviction.idle_steps = 5;
  auto partition = Partition::Create({config}, 1, nullptr, {.arena_directory = directory});
  if (!partition.ok()) return kNoPartition;
  const Table& table = (*partition)->table(0);
  std::vector<uint64_t> ids(kIds);
  std::vector<float> rows(kIds * kDim);
  const PullGroup pull{0, ids, {rows.data(), kIds, kDim}};
  uint64_t step = 0;
  const auto pull_fresh = [&](bool fresh) {
    for (size_t i = 0; fresh && i < kIds; ++i) ids[i] = step * kIds + i;
    return testing::PullWhole(**partition, LookupMode::kTrain, {1, 0, step++}, 0, {&pull, 1}).ok();
  };
  // Sweeps follow the fresh rows, and meet no expired one before there is no room.
  const auto evicted_for_space = [&] {
    const TableStats stats = table.stats();
    return stats.evicted_for[static_cast<size_t>(EvictionCause::kMemory)] + stats.rejected_full;
  };
  while (table.stats().rows == step * kIds) {
    if (!pull_fresh(true)) return kWrongPull;
  }
  const uint64_t full = table.stats().rows;
  while (table.stats().rows > kIds) {
    if (step > 1000 || !pull_fresh(false)) return kWrongPull;
  }
  const uint64_t lost = evicted_for_space();
  for (uint64_t again = 0; again < 4; ++again) {
    if (!pull_fresh(true)) return kWrongPull;
  }
  const bool right =
      full > 5 * kIds && evicted_for_space() == lost && table.stats().rows == 5 * kIds;
  return right ? kAsItShould : kWrongCounts;
}

// With more tables than the file system has pages for.
Ending StartTooMuch(const std::string& directory, WhenFull when_full) {
  if (!MountSmall(directory)) return kNoMounts;
  std::vector<TableConfig> tables(3000, Roomy(when_full));
  for (TableConfig& table : tables) table.capacity_rows = 10;
  const Status status =
      Partition::Create(tables, 1, nullptr, {.arena_directory = directory}).status();
  const bool explained =
      absl::IsResourceExhausted(status) &&
      status.message().find("embedding_ps.arena_directory") != absl::string_view::npos &&
      status.message().find("enlarge") != absl::string_view::npos;
  return explained ? kAsItShould : kNoPartition;
}

// With room for the first row of every table, but not for all rows of any.
Ending FillTables(const std::string& directory, WhenFull when_full) {
  if (!MountSmall(directory)) return kNoMounts;
  constexpr uint32_t kTables = 20;
  std::vector<TableConfig> tables(kTables, Roomy(when_full));
  for (TableConfig& table : tables) table.capacity_rows = 2000;
  const auto partition = Partition::Create(tables, 1, nullptr, {.arena_directory = directory});
  if (!partition.ok()) return kNoPartition;
  std::vector<uint64_t> ids(kIds);
  std::vector<float> rows(kIds * kDim);
  for (uint64_t step = 0; step < kPulls; ++step) {
    for (size_t i = 0; i < kIds; ++i) ids[i] = step * kIds + i;
    for (uint32_t table = 0; table < kTables; ++table) {
      const PullGroup pull{table, ids, {rows.data(), kIds, kDim}};
      if (!testing::PullWhole(**partition, LookupMode::kTrain, {1, 0, step}, 0, {&pull, 1}).ok()) {
        return when_full == WhenFull::kStop ? kAsItShould : kWrongPull;
      }
    }
  }
  for (uint32_t table = 0; table < kTables; ++table) {
    if ((*partition)->table(table).stats().rows == 0) return kWrongCounts;
  }
  return when_full == WhenFull::kStop ? kWrongPull : kAsItShould;
}

// Checks the ending of `run` in a child process with a directory to mount a file system on.
void RequireEnding(Ending (*run)(const std::string& directory, WhenFull), WhenFull when_full) {
  INFO("policy " << static_cast<int>(when_full));
  char directory[] = "/tmp/simurgh-full-XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  const int ending = RunInChild([&] { return run(directory, when_full); });
  CHECK(rmdir(directory) == 0);
  if (ending == kNoMounts) SIMURGH_SKIP("this process may not mount a file system");
  CHECK(ending == kAsItShould);
}

TEST_CASE("a full file system of an arena triggers when_full, not a signal", "[kernel]") {
  RequireEnding(PullTooMuch, GENERATE(WhenFull::kEvict, WhenFull::kRefuse, WhenFull::kStop));
}

TEST_CASE("a file system without room for the first rows is an error at the start", "[kernel]") {
  RequireEnding(StartTooMuch, WhenFull::kEvict);
}

TEST_CASE("tables share a full file system according to when_full, each with some rows",
          "[kernel]") {
  RequireEnding(FillTables, GENERATE(WhenFull::kEvict, WhenFull::kRefuse, WhenFull::kStop));
}

TEST_CASE("expired rows are reused when an arena's file system is full", "[kernel]") {
  RequireEnding(FillAgainWhatExpired, GENERATE(WhenFull::kEvict, WhenFull::kRefuse));
}

}  // namespace
}  // namespace simurgh
