// Saves of a server that trains meanwhile.

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "embedding/bucket_map.h"
#include "model/model_directory.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/runtime/io_thread.h"
#include "tests/support/skip.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/services/one_table.h"
#include "tests/unit/table/copied_rows.h"

namespace simurgh {
namespace {

using Rows = std::vector<std::map<uint64_t, Row>>;  // By table.

constexpr uint64_t kIds = 20'000;
constexpr uint64_t kIdsOfStep = 2'000;
constexpr std::chrono::minutes kDeadline{2};

// Plain rows, 16-bit rows that expire, and a full table.
ClusterConfig ThreeTables(const std::string& directory) {
  ClusterConfig config = OneTable(/*dim=*/7, /*capacity_rows=*/4 * kIds);
  config.embedding_ps.partitions = 3;
  config.checkpoint.directory = directory;
  config.tables[0].optimizer.kind = SparseOptimizerConfig::Kind::kAdagrad;
  TableConfig halves = config.tables[0];
  halves.name = "halves";
  halves.precision = halves.state_precision = RowPrecision::kBf16;
  halves.optimizer.kind = SparseOptimizerConfig::Kind::kAdam;
  halves.eviction.idle_steps = 12;
  config.tables.push_back(halves);
  TableConfig full = config.tables[0];
  full.name = "full";
  full.capacity_rows = kIds / 4;
  config.tables.push_back(full);
  return config;
}

class Server {
 public:
  explicit Server(const ClusterConfig& config) : config_(config), metrics_(registry_, config) {
    rows_ = ParameterServer::Create(config, metrics_).value();
  }

  ParameterServer& rows() { return *rows_; }

  template <typename Method>
  auto Call(const Method& method) {
    return rpc::asio::co_spawn(io_.executor(), method, rpc::asio::use_future).get();
  }

  // Pulls and then pushes the same ids of all tables.
  void Train(uint64_t step, const std::vector<uint64_t>& ids) {
    const BucketMap map(1, config_.embedding_ps.partitions);
    std::vector<RowGroup> groups;
    std::vector<uint64_t> ordered;
    uint64_t numbers = 0;
    for (uint32_t t = 0; t < config_.tables.size(); ++t) {
      groups.push_back({t, config_.tables[t].dim, std::vector<uint32_t>(map.slots())});
      for (uint32_t slot = 0; slot < map.slots(); ++slot) {
        for (const uint64_t id : ids) {
          if (map.SlotOf(id) != slot) continue;
          ordered.push_back(id);
          ++groups[t].counts[slot];
        }
      }
      numbers += ids.size() * config_.tables[t].dim;
    }
    std::vector<float> values(numbers);
    const StepId step_id = {.run = 1, .step = step};
    REQUIRE(Call([&] {
              return rows_->Pull({.step_id = step_id,
                                  .groups = groups,
                                  .ids = ordered,
                                  .rows = std::as_writable_bytes(std::span(values))},
                                 {rpc::Clock::now() + kDeadline});
            }).ok());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
    const std::vector<float> rates(groups.size(), 0.1F);
    REQUIRE(Call([&] {
              return rows_->Push({.step_id = step_id,
                                  .groups = groups,
                                  .learning_rates = rates,
                                  .ids = ordered,
                                  .gradients = std::as_bytes(std::span(values))},
                                 {rpc::Clock::now() + kDeadline});
            }).ok());
  }

  // Ids that depend on the step alone.
  void Train(uint64_t step) {
    Random random(step);
    std::vector<bool> given(kIds);
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kIdsOfStep; ++i) {
      const uint64_t id = random.Below(kIds);
      if (!given[id]) ids.push_back(id);
      given[id] = true;
    }
    Train(step, ids);
  }

  StatusOr<SaveProgress> Save(const std::string& folder, uint64_t run = 1) {
    return Call([&] {
      return rows_->SaveRows({.run = run, .folder = folder}, {rpc::Clock::now() + kDeadline});
    });
  }

  // Repeats a call until it is done.
  template <typename Method>
  StatusOr<SaveProgress> Await(const Method& method) {
    while (true) {
      StatusOr<SaveProgress> progress = method();
      if (!progress.ok() || progress->done) return progress;
    }
  }

  Rows Contents() {
    Rows contents(config_.tables.size());
    for (uint32_t p = 0; p < rows_->shape().partitions; ++p) {
      for (size_t t = 0; t < contents.size(); ++t) {
        contents[t].merge(VisitedRows(rows_->partition(p).table(t)));
      }
    }
    return contents;
  }

  std::string Metrics() { return registry_.Serialize(); }

 private:
  const ClusterConfig config_;
  MetricRegistry registry_;
  IoThread io_{"test-server"};  // Before the server, whose threads post to it until they end.
  ServerMetrics metrics_;
  std::unique_ptr<ParameterServer> rows_;
};

// A folder as a trainer creates it for each save.
struct Model {
  explicit Model(const std::string& path) : directory(path) {
    generation = directory.NewGeneration().value();
  }

  static std::string NameOf(const CheckpointAttempt& attempt) {
    return attempt.folder().substr(attempt.folder().rfind('/') + 1);
  }

  ModelDirectory directory;
  uint64_t generation;
};

uint64_t Number(const std::string& metrics, const std::string& name) {
  const size_t at = metrics.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::stoull(metrics.substr(at + name.size() + 2));
}

TEST_CASE("a save has the rows of its first call, and training goes on as without it") {
  const bool is_short_of_memory = GENERATE(false, true);
  CAPTURE(is_short_of_memory);
  const TemporaryFolder folder;
  ClusterConfig config = ThreeTables(folder.path());
  if (is_short_of_memory) {
    config.checkpoint.memory = 1;
    config.checkpoint.bandwidth = 1'000'000;  // Not for rows that pulls wait for.
  }
  Server server(config);
  Server control(ThreeTables(""));
  uint64_t step = 0;
  const auto train = [&](auto&&... ids) {
    server.Train(step, ids...);
    control.Train(step, ids...);
    ++step;
  };
  for (int i = 0; i < 20; ++i) train();

  Model model(folder.path());
  CheckpointAttempt attempt = model.directory.Begin(step, model.generation).value();
  const Rows before = server.Contents();
  StatusOr<SaveProgress> progress = server.Save(Model::NameOf(attempt));
  REQUIRE(progress.ok());
  for (int i = 0; i < 15; ++i) train();
  std::vector<uint64_t> all(kIds);
  for (uint64_t id = 0; id < kIds; ++id) all[id] = id;
  train(all);
  progress = server.Await([&] { return server.Save(Model::NameOf(attempt)); });
  REQUIRE(progress.ok());
  CHECK((server.Contents() == control.Contents()));
  CHECK(server.rows().ContentDigests() == control.rows().ContentDigests());

  const Checkpoint saved = attempt.Publish({.files = progress->files}).value();
  Server restored(config);
  REQUIRE(
      restored.rows().LoadRows(saved, 0, [](uint64_t, uint64_t) { return absl::OkStatus(); }).ok());
  CHECK((restored.Contents() == before));
  const std::string metrics = server.Metrics();
  CHECK((Number(metrics, "simurgh_ps_save_pull_waits_total") > 0) == is_short_of_memory);
  CHECK(Number(metrics, "simurgh_ps_save_failures_total") == 0);
}

TEST_CASE("late calls of an earlier save or restore stop no save") {
  const TemporaryFolder folder;
  ClusterConfig config = ThreeTables(folder.path());
  Server server(config);
  const auto restore = [&] {
    return server.Call(
        [&] { return server.rows().RestoreRows({.run = 1}, {rpc::Clock::now() + kDeadline}); });
  };
  REQUIRE(server.Await(restore).ok());
  server.Train(0);
  Model model(folder.path());
  const CheckpointAttempt first = model.directory.Begin(1, model.generation).value();
  const CheckpointAttempt second = model.directory.Begin(2, model.generation).value();
  REQUIRE(server.Await([&] { return server.Save(Model::NameOf(first)); }).ok());
  REQUIRE(server.Save(Model::NameOf(second)).ok());
  CHECK(absl::IsFailedPrecondition(server.Save(Model::NameOf(first)).status()));
  CHECK(restore()->done);
  CHECK(server.Await([&] { return server.Save(Model::NameOf(second)); }).ok());
  CHECK(Number(server.Metrics(), "simurgh_ps_save_failures_total") == 0);
}

TEST_CASE("a server that was restarted during a save does not begin it anew") {
  const TemporaryFolder folder;
  Server server(ThreeTables(folder.path()));
  Model model(folder.path());
  const CheckpointAttempt attempt = model.directory.Begin(1, model.generation).value();
  SaveRowsCall call{.run = 1, .folder = Model::NameOf(attempt), .continues = true};
  const auto save = [&] {
    return server.Call(
        [&] { return server.rows().SaveRows(call, {rpc::Clock::now() + kDeadline}); });
  };
  CHECK(absl::IsDataLoss(save().status()));
  call.continues = false;
  CHECK(save().ok());
  call.continues = true;
  CHECK(server.Await(save).ok());
}

TEST_CASE("a save or a restore stops another save") {
  const TemporaryFolder folder;
  ClusterConfig config = ThreeTables(folder.path());
  config.checkpoint.bandwidth = 1;
  Server server(config);
  for (uint64_t step = 0; step < 4; ++step) server.Train(step);
  Model model(folder.path());
  const CheckpointAttempt first = model.directory.Begin(4, model.generation).value();
  const CheckpointAttempt second = model.directory.Begin(5, model.generation).value();
  const CheckpointAttempt third = model.directory.Begin(6, model.generation).value();
  REQUIRE(server.Save(Model::NameOf(first)).ok());

  // Who saves or restores tries again while it is told to.
  const auto await = [](const auto& call) {
    bool was_aborted = false;
    while (true) {
      const Status status = call();
      if (!absl::IsAborted(status)) return std::pair(was_aborted, status);
      was_aborted = true;
      CHECK_THAT(std::string(status.message()), Catch::Contains("waiting for the end of"));
    }
  };
  const auto [waited, saved] =
      await([&] { return server.Save(Model::NameOf(second), /*run=*/2).status(); });
  CHECK(waited);
  CHECK(saved == absl::OkStatus());
  CHECK_FALSE(server.Save(Model::NameOf(second), /*run=*/2)->done);
  CHECK(std::filesystem::is_empty(first.folder() + "/rows/ids"));

  const auto [restore_waited, restored] = await([&] {
    return server
        .Call([&] {
          return server.rows().RestoreRows({.run = 3, .model = folder.path(), .step = 4},
                                           {rpc::Clock::now() + kDeadline});
        })
        .status();
  });
  CHECK(restore_waited);
  CHECK(restored == absl::OkStatus());
  CHECK(Number(server.Metrics(), "simurgh_ps_save_failures_total") == 2);

  // Nothing is left of the stopped ones: a copy begins anew. The server ends during the last one.
  server.Train(5);
  CHECK(server.Save(Model::NameOf(third), /*run=*/3).ok());
  server.Train(6);
}

// How a child ends.
enum Ending { kAsItShould, kNoMounts, kNotRefused, kBadMessage, kFileLeft, kNotSaved };

// Two files, each of which fits alone.
Ending SaveTooMuch(const std::string& folder) {
  constexpr int kMegabytes = 12;
  if (!MountSmallFileSystem(folder, kMegabytes)) return kNoMounts;
  ClusterConfig config = OneTable(/*dim=*/100, /*capacity_rows=*/2 * kIds);
  config.checkpoint.directory = folder;
  config.tables.push_back(config.tables[0]);
  config.tables.back().name = "more";
  Server server(config);
  std::vector<uint64_t> all(kIds);
  for (uint64_t id = 0; id < kIds; ++id) all[id] = id;
  server.Train(0, all);
  Model model(folder);
  const CheckpointAttempt attempt = model.directory.Begin(1, model.generation).value();
  // 418 bytes a row: id, uses, recency and weights.
  constexpr uint64_t kAllRows = 2 * kIds * 418;
  const auto first = server.Save(Model::NameOf(attempt));
  if (!first.ok() || first->bytes < kAllRows || first->bytes > kAllRows + 4'000) return kBadMessage;
  const Status status = server.Await([&] { return server.Save(Model::NameOf(attempt)); }).status();
  if (!absl::IsResourceExhausted(status)) return kNotRefused;
  const std::string message(status.message());
  const std::string begin = attempt.folder() +
                            ": the disk is full: the save of a server's rows needs " +
                            std::to_string(first->bytes) + " bytes, and 1";
  if (!message.starts_with(begin) || message.find(" are free; ") == message.npos) {
    return kBadMessage;
  }
  for (const char* table : {"/rows/ids", "/rows/more"}) {
    if (!std::filesystem::is_empty(attempt.folder() + table)) return kFileLeft;
  }
  server.Train(1, {1, 2, 3});
  return Number(server.Metrics(), "simurgh_ps_save_failures_total") == 1 ? kAsItShould : kNotSaved;
}

TEST_CASE("a full disk ends a save with folder, need and room, and training goes on") {
  const TemporaryFolder folder;
  const int ending = RunInChild([&] { return SaveTooMuch(folder.path()); });
  if (ending == kNoMounts) SIMURGH_SKIP("this process may not mount a file system");
  CHECK(ending == kAsItShould);
}

}  // namespace
}  // namespace simurgh
