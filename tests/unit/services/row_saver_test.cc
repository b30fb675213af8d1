#include "services/embedding_ps/row_saver.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/step_id.h"
#include "model/model_directory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/one_table.h"

namespace simurgh {
namespace {

std::future<void> Done() {
  std::promise<void> done;
  done.set_value();
  return done.get_future();
}

// The end of a save.
StatusOr<SaveProgress> Await(RowSaver& saver, const SaveRowsCall& call) {
  StatusOr<SaveProgress> progress;
  testing::Eventually([&] {
    progress = saver.Save(call);
    return !progress.ok() || progress->done;
  });
  return progress;
}

TEST_CASE("a save that stops returns the memory of rows that pulls waited for") {
  constexpr uint64_t kIds = 10'000;  // More than a piece.
  const TemporaryFolder folder;
  ClusterConfig config = OneTable(/*dim=*/4, /*capacity_rows=*/2 * kIds);
  config.checkpoint.directory = folder.path();
  for (const char* name : {"second", "third"}) {
    config.tables.push_back(config.tables[0]);
    config.tables.back().name = name;
  }
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  const auto partition = Partition::Create(config.tables, /*seed=*/1).value();
  std::vector<uint64_t> ids(kIds);
  for (uint64_t id = 0; id < kIds; ++id) ids[id] = id;
  std::vector<float> values(kIds * 4);
  const auto pull = [&](uint64_t stamp) {
    for (size_t t = 0; t < 3; ++t) {
      partition->table(t).Pull(ids, MatrixView<float>(values.data(), kIds, 4), stamp);
    }
  };
  pull(1);

  CopyMemory memory(/*limit_bytes=*/1);
  ModelDirectory directory(folder.path());
  const CheckpointAttempt attempt = directory.Begin(1, directory.NewGeneration().value()).value();
  const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  std::unique_ptr<RowSaver> saver;
  bool is_stopped = false;
  const PartitionThreads threads{.count = 1,
                                 .on_one =
                                     [&](uint32_t, const std::function<void(Partition&)>& use) {
                                       use(*partition);
                                       pull(2);
                                       CHECK_FALSE(memory.Reserve(1));
                                       return Done();
                                     },
                                 .on_all =
                                     [&](absl::FunctionRef<void(uint32_t, Partition&)> use) {
                                       use(0, *partition);
                                       // The writer has taken the rows that were copied early, and
                                       // writes none of them.
                                       if (memory.used_bytes() > 0 && !is_stopped) {
                                         is_stopped = true;
                                         CHECK_FALSE(saver->Stop().ok());
                                       }
                                     }};
  saver = std::make_unique<RowSaver>(config.checkpoint, config.tables, threads, memory, metrics);
  const StatusOr<SaveProgress> progress = Await(*saver, {.folder = name});
  CHECK(absl::IsCancelled(progress.status()));
  CHECK(is_stopped);
  CHECK(memory.used_bytes() == 0);
}

TEST_CASE("a save leaves nothing behind once the nn-worker has given it up") {
  const TemporaryFolder folder;
  ClusterConfig config = OneTable(/*dim=*/4, /*capacity_rows=*/10);
  config.checkpoint.directory = folder.path();
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  const auto partition = Partition::Create(config.tables, /*seed=*/1).value();
  CopyMemory memory(/*limit_bytes=*/1);
  ModelDirectory directory(folder.path());
  auto attempt = std::make_unique<CheckpointAttempt>(
      directory.Begin(1, directory.NewGeneration().value()).value());
  const std::string path = attempt->folder();
  const PartitionThreads threads{.count = 1,
                                 .on_one =
                                     [](uint32_t, const std::function<void(Partition&)>&) {
                                       FAIL_CHECK("the save copies rows");
                                       return Done();
                                     },
                                 .on_all =
                                     [&](absl::FunctionRef<void(uint32_t, Partition&)> use) {
                                       use(0, *partition);
                                       attempt = nullptr;
                                     }};
  RowSaver saver(config.checkpoint, config.tables, threads, memory, metrics);
  const std::string name = path.substr(path.rfind('/') + 1);
  const StatusOr<SaveProgress> progress = Await(saver, {.folder = name});
  CHECK(absl::IsNotFound(progress.status()));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a server writes only to folders that name its training") {
  constexpr uint64_t kTraining = 0xabcdef;
  const TemporaryFolder folder;
  ClusterConfig config = OneTable(/*dim=*/4, /*capacity_rows=*/10);
  config.checkpoint.directory = folder.Path("model");
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  const auto partition = Partition::Create(config.tables, /*seed=*/1).value();
  CopyMemory memory(/*limit_bytes=*/1 << 20);
  const PartitionThreads threads{
      .count = 1,
      .on_one =
          [&](uint32_t, const std::function<void(Partition&)>& use) {
            use(*partition);
            return Done();
          },
      .on_all = [&](absl::FunctionRef<void(uint32_t, Partition&)> use) { use(0, *partition); }};
  RowSaver saver(config.checkpoint, config.tables, threads, memory, metrics);
  SaveRowsCall call{.run = RunNumber(/*generation=*/3, kTraining),
                    .folder = "step-1.tmp-3",
                    .directory = folder.Path("other")};
  std::filesystem::create_directories(call.directory + "/" + call.folder);
  const auto refused = [&] {
    const Status status = Await(saver, call).status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Catch::StartsWith("save rows: '" + call.directory +
                                 "/run' does not name this training here") &&
                   Catch::Contains("simurgh checkpoint --directory"));
  };
  refused();
  call.probe = true;
  refused();
  call.probe = false;
  ModelDirectory other(call.directory);
  REQUIRE(other.KeepRun(kTraining + 1, 3).ok());
  refused();
  CHECK(std::filesystem::is_empty(call.directory + "/" + call.folder));
  std::filesystem::remove(call.directory + "/run");
  REQUIRE(other.KeepRun(kTraining, 3).ok());
  CHECK(Await(saver, call).ok());
  CHECK(std::filesystem::exists(call.directory + "/step-1.tmp-3/rows/ids/0.safetensors"));
}

}  // namespace
}  // namespace simurgh
