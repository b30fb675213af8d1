// Rows saved by one cluster and loaded by clusters of other sizes.

#include "services/embedding_ps/row_loader.h"

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/step_id.h"
#include "embedding/bucket_map.h"
#include "model/model_report.h"
#include "model/table_export.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/runtime/io_thread.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/services/one_table.h"

namespace simurgh {
namespace {

constexpr uint64_t kRows = 150'000;  // Several pieces in one file.

Status NoProgress(uint64_t /*rows*/, uint64_t /*all_rows*/) { return absl::OkStatus(); }

ClusterConfig TwoTables(size_t servers, uint32_t partitions) {
  ClusterConfig config = OneTable(/*dim=*/3, /*capacity_rows=*/4 * kRows);
  config.embedding_ps.instances.resize(servers);
  config.embedding_ps.partitions = partitions;
  TableConfig second = config.tables[0];
  second.name = "halves";
  second.dim = 2;
  second.precision = RowPrecision::kBf16;
  second.optimizer.kind = SparseOptimizerConfig::Kind::kAdam;
  second.eviction.idle_steps = 4;
  config.tables.push_back(second);
  return config;
}

struct Server {
  explicit Server(const ClusterConfig& config) : metrics(registry, config) {
    rows = ParameterServer::Create(config, metrics).value();
  }

  // Pulls rows of a table, by the map of one server.
  void Pull(const ClusterConfig& config, uint32_t table, const std::vector<uint64_t>& ids,
            uint64_t step, std::vector<float>& to, LookupMode mode = LookupMode::kTrain) {
    const BucketMap map(1, config.embedding_ps.partitions);
    RowGroup group{table, config.tables[table].dim, std::vector<uint32_t>(map.slots())};
    std::vector<uint64_t> ordered;
    for (uint32_t slot = 0; slot < map.slots(); ++slot) {
      for (const uint64_t id : ids) {
        if (map.SlotOf(id) != slot) continue;
        ordered.push_back(id);
        ++group.counts[slot];
      }
    }
    to.resize(ids.size() * group.dim);
    const std::vector<RowGroup> groups = {group};
    const auto call = [&]() -> rpc::awaitable<StatusOr<PullReport>> {
      PullRowsCall pull{.mode = mode,
                        .step_id = {.run = 1, .step = step},
                        .groups = groups,
                        .ids = ordered,
                        .rows = std::as_writable_bytes(std::span(to))};
      co_return co_await rows->Pull(pull, {rpc::Clock::now() + std::chrono::minutes(1)});
    };
    REQUIRE(rpc::asio::co_spawn(io.executor(), call, rpc::asio::use_future).get().ok());
  }

  SaveProgress Save(const std::string& folder, uint32_t server, const std::string& parent = {}) {
    while (true) {
      const auto call = [&]() -> rpc::awaitable<StatusOr<SaveProgress>> {
        SaveRowsCall save{.folder = folder, .server = server, .parent = parent};
        co_return co_await rows->SaveRows(save, {rpc::Clock::now() + std::chrono::minutes(1)});
      };
      SaveProgress progress =
          rpc::asio::co_spawn(io.executor(), call, rpc::asio::use_future).get().value();
      if (progress.done) return progress;
    }
  }

  MetricRegistry registry;
  IoThread io{"test-server"};
  ServerMetrics metrics;
  std::unique_ptr<ParameterServer> rows;
};

std::vector<uint64_t> Ids(uint64_t first, uint64_t count) {
  std::vector<uint64_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// A checkpoint of one server, and the digests of its tables.
struct Saved {
  explicit Saved(const TemporaryFolder& folder) {
    ClusterConfig config = TwoTables(1, 3);
    config.checkpoint.directory = folder.path();
    Server server(config);
    std::vector<float> row;
    server.Pull(config, 0, Ids(0, kRows), 0, row);
    server.Pull(config, 1, Ids(5, 1000), 1, row);
    server.Pull(config, 1, Ids(2'000, 10), 8, row);  // The other rows expire; most are not swept.
    digests = server.rows->ContentDigests();
    ModelDirectory model(folder.path());
    CheckpointAttempt attempt = model.Begin(9, model.NewGeneration().value()).value();
    const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
    checkpoint = attempt.Publish({.files = server.Save(name, 0).files}).value();
  }

  std::vector<uint64_t> digests;
  Checkpoint checkpoint;
};

// A full checkpoint of step 9, and deltas of steps 19, 29 and 39.
struct SavedChain {
  explicit SavedChain(const std::string& folder) {
    ClusterConfig config = TwoTables(1, 3);
    config.checkpoint.directory = folder;
    config.checkpoint.full_every = 4;
    Server server(config);
    ModelDirectory model(folder);
    const uint64_t generation = model.NewGeneration().value();
    std::string parent;
    const auto save = [&](uint64_t step, bool is_delta) {
      CheckpointAttempt attempt = model.Begin(step, generation).value();
      const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
      Manifest manifest{.files = server.Save(name, 0, is_delta ? parent : "").files};
      if (is_delta) {
        manifest.parent = {checkpoints.back().manifest.step, checkpoints.back().checksum};
      }
      parent = name;
      checkpoints.push_back(attempt.Publish(std::move(manifest)).value());
      digests.push_back(server.rows->ContentDigests());
    };
    std::vector<float> row;
    server.Pull(config, 0, Ids(0, kRows), 0, row);
    server.Pull(config, 1, Ids(5, 10'000), 1, row);
    save(9, false);
    server.Pull(config, 1, Ids(5, 1'000), 3, row);
    server.Pull(config, 1, Ids(5, 500), 9, row);  // The others expire, and few are swept.
    server.Pull(config, 0, Ids(kRows - 500, 1'000), 9, row);
    save(19, true);
    // Removes most rows of the second table; those that are left are new.
    for (uint64_t step = 20; step < 22; ++step) server.Pull(config, 1, Ids(9'990, 700), step, row);
    server.Pull(config, 1, Ids(20'000, 9'000), 22, row);
    server.Pull(config, 0, Ids(5, 1'000), 24, row);
    save(29, true);
    server.Pull(config, 1, Ids(5, 200), 30, row);
    {
      const CheckpointAttempt failed = model.Begin(38, generation).value();  // Not published.
      server.Save("step-38.tmp-1", 0, parent);
    }
    server.Pull(config, 0, Ids(3 * kRows, 100), 31, row);
    save(39, true);
    save(40, false);  // What all deltas amount to.
  }

  const Checkpoint& delta() const { return checkpoints[3]; }
  const Checkpoint& full() const { return checkpoints[4]; }

  std::vector<Checkpoint> checkpoints;
  std::vector<std::vector<uint64_t>> digests;
};

uint64_t BytesOf(const Checkpoint& checkpoint, const std::string& name) {
  return std::filesystem::file_size(checkpoint.Path(name));
}

TEST_CASE("a delta and what it continues have the rows of a full checkpoint") {
  const TemporaryFolder folder;
  const SavedChain saved(folder.path() + "/model");
  const std::string first = "rows/ids/0.safetensors";
  CHECK(BytesOf(saved.delta(), first) < BytesOf(saved.full(), first) / 50);
  CHECK(DescribeDifferences(saved.delta(), saved.full()).value() == "");
  CHECK(DescribeDifferences(saved.checkpoints[2], saved.full()).value() != "");
  CHECK(TableReader::Open(saved.delta(), "ids").value().rows() == kRows + 600);
  // Most rows of the second table changed before the step: its file has all of them.
  CHECK(saved.checkpoints[1].Has("removed/halves/0.safetensors"));
  CHECK_FALSE(saved.checkpoints[2].Has("removed/halves/0.safetensors"));
  CHECK(saved.checkpoints[2].Has("removed/ids/0.safetensors"));

  for (const auto& [servers, partitions] :
       {std::pair<uint32_t, uint32_t>{1, 3}, {1, 1}, {2, 2}, {3, 5}}) {
    CAPTURE(servers, partitions);
    const ClusterConfig config = TwoTables(servers, partitions);
    for (size_t at = 0; at < saved.checkpoints.size(); ++at) {
      CAPTURE(at);
      std::vector<uint64_t> digests(2);
      for (uint32_t index = 0; index < servers; ++index) {
        Server server(config);
        REQUIRE(server.rows->LoadRows(saved.checkpoints[at], index, NoProgress) ==
                absl::OkStatus());
        const std::vector<uint64_t> own = server.rows->ContentDigests();
        for (size_t t = 0; t < digests.size(); ++t) digests[t] += own[t];
      }
      CHECK(digests == saved.digests[at]);
    }
  }

  const Checkpoint merged = MergeCheckpoint(saved.delta(), folder.path() + "/merged").value();
  CHECK_FALSE(merged.manifest.parent.has_value());
  CHECK(merged.manifest.step == 39);
  CHECK(DescribeDifferences(merged, saved.full()).value() == "");
  CHECK(
      ModelDirectory(folder.path() + "/merged").Open(39)->Verify([](auto&&...) {}).value().empty());
  CHECK_THAT(
      std::string(MergeCheckpoint(saved.full(), folder.path() + "/merged").status().message()),
      Catch::Contains("has a model of step 39 already; name another folder"));
}

TEST_CASE("missing, repeated and foreign deltas are refused") {
  const TemporaryFolder folder;
  const SavedChain saved(folder.path() + "/model");
  const auto path = [&](uint64_t step) {
    return absl::StrCat(folder.path(), "/model/step-", step);
  };
  const auto replace = [&](uint64_t step, const std::string& by) {
    std::filesystem::remove_all(path(step));
    std::filesystem::copy(by, path(step), std::filesystem::copy_options::recursive);
  };
  std::string wanted;
  SECTION("a missing one") {
    std::filesystem::remove_all(path(19));
    wanted = "this is a delta of step 19, which is not readable";
  }
  SECTION("a missing full checkpoint") {
    std::filesystem::remove_all(path(9));
    wanted = "this is a delta of step 9, which is not readable";
  }
  SECTION("a repeated one") {
    replace(29, path(19));
    wanted = "the folder is for step 29 and the manifest for 19";
  }
  SECTION("one of another model") {
    const TemporaryFolder other;
    const Saved foreign(other);
    replace(9, other.path() + "/step-9");
    wanted = "is another checkpoint, with the checksum ";
  }
  Server server(TwoTables(1, 2));
  const Status refused = server.rows->LoadRows(saved.delta(), 0, NoProgress);
  CHECK(absl::IsDataLoss(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains(wanted) && Catch::Contains("or use a full checkpoint"));
  CHECK(server.rows->ContentDigests() == std::vector<uint64_t>(2));
  ModelDirectory model(folder.path() + "/model");
  CHECK_THAT(model.Open(39)->Verify([](auto&&...) {}).value().at(0), Catch::Contains(wanted));
  std::filesystem::remove_all(path(40));
  const StatusOr<ModelDirectory::Newest> newest = model.Latest();
  if (newest.ok()) {  // Of the checkpoints before the gap.
    CHECK(newest->checkpoint.manifest.step < 29);
    CHECK_THAT(newest->warnings.at(0), Catch::Contains(wanted));
  } else {
    CHECK_THAT(std::string(newest.status().message()), Catch::Contains(wanted));
  }
}

TEST_CASE("rows are restored by any number of servers and partitions") {
  const auto [servers, partitions] =
      GENERATE(table<uint32_t, uint32_t>({{1, 3}, {1, 1}, {2, 2}, {3, 5}}));
  CAPTURE(servers, partitions);
  const TemporaryFolder folder;
  const Saved saved(folder);
  const ClusterConfig config = TwoTables(servers, partitions);
  std::vector<uint64_t> digests(2);
  for (uint32_t index = 0; index < servers; ++index) {
    Server server(config);
    uint64_t seen = 0;
    uint64_t all = 0;
    const auto progress = [&](uint64_t rows, uint64_t all_rows) {
      CHECK(rows > seen);
      seen = rows;
      all = all_rows;
      return absl::OkStatus();
    };
    REQUIRE(server.rows->LoadRows(saved.checkpoint, index, progress) == absl::OkStatus());
    CHECK(all > kRows + 900);
    CHECK(seen == all);
    const std::vector<uint64_t> own = server.rows->ContentDigests();
    CHECK(own != digests);
    for (size_t t = 0; t < digests.size(); ++t) digests[t] += own[t];
  }
  CHECK(digests == saved.digests);
}

TEST_CASE("admission sketches are restored by any number of servers and partitions") {
  const TemporaryFolder folder;
  ClusterConfig config = OneTable(/*dim=*/3, /*capacity_rows=*/10'000);
  config.embedding_ps.partitions = 3;
  config.tables[0].admission = {.kind = AdmissionConfig::Kind::kOccurrences, .sketch_width = 16};
  config.tables[0].admission.occurrences = 2;
  ClusterConfig saving = config;
  saving.checkpoint.directory = folder.path();
  Server server(saving);
  std::vector<float> row;
  server.Pull(saving, 0, Ids(0, 500), 0, row);
  CHECK(server.rows->partition(0).table(0).stats().rows == 0);
  ModelDirectory model(folder.path());
  CheckpointAttempt attempt = model.Begin(9, model.NewGeneration().value()).value();
  const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  const Checkpoint checkpoint = attempt.Publish({.files = server.Save(name, 0).files}).value();

  config.embedding_ps.partitions = 2;
  Server restored(config);
  REQUIRE(restored.rows->LoadRows(checkpoint, 0, NoProgress).ok());
  restored.Pull(config, 0, Ids(100, 500), 1, row);
  uint64_t rows = 0;
  for (uint32_t p = 0; p < 2; ++p) rows += restored.rows->partition(p).table(0).stats().rows;
  CHECK(rows == 400);  // The ids that were counted before; each bucket has few.

  config.tables[0].admission.sketch_width = 32;
  Server wider(config);
  REQUIRE(wider.rows->LoadRows(checkpoint, 0, NoProgress).ok());
  wider.Pull(config, 0, Ids(100, 500), 1, row);
  for (uint32_t p = 0; p < 2; ++p) CHECK(wider.rows->partition(p).table(0).stats().rows == 0);
}

TEST_CASE("the steps of the next run are later than those of the saved rows") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  const ClusterConfig config = TwoTables(1, 2);
  Server server(config);
  REQUIRE(server.rows->LoadRows(saved.checkpoint, 0, NoProgress) == absl::OkStatus());
  uint64_t newest = 0;
  for (uint32_t p = 0; p < 2; ++p) {
    server.rows->partition(p).table(1).ForEachRow(
        [&](const RowContents& row) { newest = std::max(newest, row.recency); });
  }
  std::vector<float> row;
  server.Pull(config, 1, {7'000}, 100, row);
  uint64_t stamp = 0;
  for (uint32_t p = 0; p < 2; ++p) {
    server.rows->partition(p).table(1).ForEachRow([&](const RowContents& contents) {
      if (contents.id == 7'000) stamp = contents.recency;
    });
  }
  CHECK(stamp == newest + 1);
}

TEST_CASE("the caller can end a load") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  Server server(TwoTables(1, 1));
  const auto stop = [](uint64_t, uint64_t) { return absl::CancelledError("stop"); };
  CHECK(server.rows->LoadRows(saved.checkpoint, 0, stop) == absl::CancelledError("stop"));
}

TEST_CASE("rows of other tables are refused before one is put") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  ClusterConfig config = TwoTables(1, 2);
  const std::string rows =
      absl::StrCat("[", TensorFileReader::Open(saved.checkpoint.Path("rows/halves/0.safetensors"))
                            .value()
                            .tensors()
                            .front()
                            .rows());
  std::string wanted;
  SECTION("dim") {
    config.tables[1].dim = 4;
    wanted = absl::StrCat("table 'halves': tensor weights is U16 ", rows,
                          ", 2] in the model and U16 ", rows, ", 4] in");
  }
  SECTION("precision") {
    config.tables[1].precision = RowPrecision::kF32;
    wanted = absl::StrCat("table 'halves': tensor weights is U16 ", rows,
                          ", 2] in the model and F32 ", rows, ", 2] in");
  }
  SECTION("optimizer") {
    config.tables[0].optimizer.kind = SparseOptimizerConfig::Kind::kAdagrad;
    wanted = "table 'ids': tensor adagrad.s is missing in the model and F32 [150000, 3] in";
  }
  SECTION("no optimizer") {
    config.tables[1].optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
    wanted = "table 'halves': tensor adam.";
  }
  SECTION("a table more") {
    config.tables.push_back(config.tables[0]);
    config.tables[2].name = "third";
    wanted = "the configuration has a table 'third', the model has none";
  }
  SECTION("a table less") {
    config.tables.pop_back();
    wanted = "the model has a table 'halves', the configuration has none";
  }
  Server server(config);
  const Status refused = server.rows->LoadRows(saved.checkpoint, 0, NoProgress);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains(wanted) && Catch::Contains("use the "));
  CHECK(server.rows->ContentDigests() == std::vector<uint64_t>(config.tables.size()));
}

TEST_CASE("damaged rows are refused") {
  const TemporaryFolder folder;
  Saved saved(folder);
  Server server(TwoTables(1, 2));
  const std::string path = saved.checkpoint.Path("rows/ids/0.safetensors");
  const auto flip = [&](uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    REQUIRE(file.good());
  };
  std::string wanted;
  bool puts_some = false;
  SECTION("the last row") {
    flip(std::filesystem::file_size(path) - 1);  // `uses`, whose elements are the smallest.
    wanted = "tensor uses, rows 131072 to 149999";
    puts_some = true;
  }
  SECTION("the header") {
    flip(30);
    wanted = path;
  }
  SECTION("a file of another save") {
    std::filesystem::copy_file(saved.checkpoint.Path("rows/halves/0.safetensors"), path,
                               std::filesystem::copy_options::overwrite_existing);
    wanted = "the manifest has";
  }
  SECTION("a missing file") {
    std::filesystem::remove(path);
    wanted = path;
  }
  SECTION("a delta without its parent") {
    saved.checkpoint.manifest.parent = Manifest::Parent{.step = 1, .checksum = 2};
    wanted = "use a full checkpoint";
  }
  const Status refused = server.rows->LoadRows(saved.checkpoint, 0, NoProgress);
  CAPTURE(refused);
  CHECK(!refused.ok());
  CHECK_THAT(std::string(refused.message()), Catch::Contains(wanted));
  CHECK((server.rows->ContentDigests()[0] != 0) == puts_some);
}

// Starts a load and waits for its end.
Status Restore(Server& server, const RestoreRowsCall& restore) {
  while (true) {
    const auto call = [&]() -> rpc::awaitable<StatusOr<SaveProgress>> {
      co_return co_await server.rows->RestoreRows(restore,
                                                  {rpc::Clock::now() + std::chrono::minutes(1)});
    };
    const auto progress =
        rpc::asio::co_spawn(server.io.executor(), call, rpc::asio::use_future).get();
    if (absl::IsAborted(progress.status())) continue;
    if (!progress.ok() || progress->done) return progress.status();
  }
}

TEST_CASE("a newer start of a training replaces rows, another training does not") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  const ClusterConfig config = TwoTables(1, 2);
  Server server(config);
  std::vector<float> row;
  server.Pull(config, 0, Ids(7, 100), 3, row);  // Run 1.
  const std::vector<uint64_t> others = server.rows->ContentDigests();
  const auto run = [](uint64_t generation) { return RunNumber(generation, 1); };
  const auto checkpoint = [&](uint64_t number) {
    return RestoreRowsCall{.run = number, .ranks = 1, .model = folder.path(), .step = 9};
  };

  const Status refused = Restore(server, checkpoint(RunNumber(1, 2)));
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("rows of another training; restart"));
  CHECK(absl::IsFailedPrecondition(Restore(server, {.run = RunNumber(2, 2)})));
  RestoreRowsCall missing = checkpoint(run(1));
  missing.step = 8;
  CHECK(absl::IsNotFound(Restore(server, missing)));
  CHECK(server.rows->ContentDigests() == others);

  CHECK(Restore(server, checkpoint(run(2))) == absl::OkStatus());
  CHECK(server.rows->ContentDigests() == saved.digests);
  CHECK(Restore(server, checkpoint(run(3))) == absl::OkStatus());
  CHECK(server.rows->ContentDigests() == saved.digests);
  // A start that finds no checkpoint begins with empty tables.
  CHECK(Restore(server, {.run = run(4)}) == absl::OkStatus());
  CHECK(server.rows->ContentDigests() == Server(config).rows->ContentDigests());
}

TEST_CASE("a run loads the same checkpoint again, and late calls of its first load do nothing") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  const ClusterConfig config = TwoTables(1, 2);
  Server server(config);
  RestoreRowsCall call{.run = RunNumber(1, 1), .model = folder.path(), .step = 9};
  CHECK(Restore(server, call) == absl::OkStatus());
  std::vector<float> row;
  server.Pull(config, 0, Ids(1'000'000, 100), 10, row);
  REQUIRE(server.rows->ContentDigests() != saved.digests);
  call.load = 1;
  CHECK(Restore(server, call) == absl::OkStatus());
  CHECK(server.rows->ContentDigests() == saved.digests);
  call.load = 0;
  CHECK(absl::IsFailedPrecondition(Restore(server, call)));
  CHECK(server.rows->ContentDigests() == saved.digests);
}

// The sum of a gauge over the partitions.
double SumOf(const std::string& metrics, const std::string& gauge, const std::string& table) {
  double sum = 0;
  const std::string end = "table=\"" + table + "\"} ";
  for (size_t at = metrics.find(gauge + "{"); at != metrics.npos;
       at = metrics.find(gauge + "{", at + 1)) {
    const std::string line = metrics.substr(at, metrics.find('\n', at) - at);
    const size_t number = line.find(end);
    if (number != line.npos) sum += std::stod(line.substr(number + end.size()));
  }
  return sum;
}

TEST_CASE("the number of rows that a server reports is that of the rows it has loaded or dropped") {
  const TemporaryFolder folder;
  const Saved saved(folder);
  Server server(TwoTables(1, 2));
  const auto check = [&] {
    for (size_t t = 0; t < server.rows->shape().dims.size(); ++t) {
      uint64_t rows = 0;
      for (uint32_t p = 0; p < server.rows->shape().partitions; ++p) {
        rows += server.rows->partition(p).table(t).stats().rows;
      }
      const std::string& name = server.rows->partition(0).table(t).config().name;
      CHECK(SumOf(server.registry.Serialize(), "simurgh_ps_table_rows", name) ==
            static_cast<double>(rows));
    }
    return SumOf(server.registry.Serialize(), "simurgh_ps_table_rows", "ids");
  };
  const auto restore = [&](uint64_t generation, const std::string& model) {
    REQUIRE(Restore(server, {.run = RunNumber(generation, 1), .model = model, .step = 9}).ok());
  };
  restore(1, folder.path());
  CHECK(check() > 0);
  restore(2, "");
  CHECK(check() == 0);
}

TEST_CASE("metrics of a server count on after its rows were replaced") {
  const ClusterConfig config = TwoTables(1, 2);
  Server server(config);
  std::vector<float> row;
  server.Pull(config, 0, Ids(7, 100), 3, row);
  server.Pull(config, 0, Ids(7, 100), 4, row);
  REQUIRE(Restore(server, {.run = 1}).ok());
  server.Pull(config, 0, Ids(7, 60), 5, row);
  CHECK_THAT(server.registry.Serialize(),
             Catch::Contains("simurgh_ps_table_hits_total{table=\"ids\"} 100\n") &&
                 Catch::Contains("simurgh_ps_table_admissions_total{table=\"ids\"} 160\n"));
}

}  // namespace
}  // namespace simurgh
