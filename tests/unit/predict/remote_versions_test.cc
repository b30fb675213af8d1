// Versions whose rows are in shares, and the processes that hold them.

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "predict/row_encoding.h"
#include "predict/scorer.h"
#include "predict/served_versions.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/predict/share_servers.h"
#include "tests/unit/predict/versioned_model.h"

namespace simurgh::testing {
namespace {

using std::chrono::milliseconds;

bool Reaches(const ServedVersions& versions, uint64_t step) {
  return Eventually([&] {
    const auto current = versions.Current();
    return current != nullptr && current->step() == step;
  });
}

Status NoProgress(uint64_t /*rows*/, uint64_t /*all*/) { return absl::OkStatus(); }

VersionName NameOf(const Checkpoint& checkpoint) {
  return {checkpoint.manifest.step, checkpoint.checksum, 1};
}

// The rows of both tables that a version has, as bytes by table and id.
std::map<std::pair<uint32_t, uint64_t>, std::vector<std::byte>> RowsIn(
    const ModelVersion& version) {
  std::vector<uint64_t> ids;
  std::vector<RowRead::Group> groups;
  for (uint32_t table = 0; table < 2; ++table) {
    for (uint64_t id = 0; id < VersionedModel::kIds + 10; ++id) ids.push_back(id);
    groups.push_back({table, static_cast<uint32_t>(VersionedModel::kIds) + 10});
  }
  std::vector<std::byte> memory;
  const RowAnswer answer =
      AnswerRead(version, VectorPrecision::kF32, groups, ids, [&](size_t bytes) -> RowMemory {
        memory.resize(bytes);
        return {memory, nullptr};
      }).value();
  std::map<std::pair<uint32_t, uint64_t>, std::vector<std::byte>> rows;
  size_t at = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!answer.Has(i)) continue;
    const std::span<const std::byte> row = answer.rows.subspan(at, 2 * sizeof(float));
    rows[{i < ids.size() / 2 ? 0U : 1U, ids[i]}].assign(row.begin(), row.end());
    at += row.size();
  }
  REQUIRE(at == answer.rows.size());
  return rows;
}

TEST_CASE("The shares of several servers are together the whole model") {
  const bool maps_rows = GENERATE(false, true);
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const Checkpoint full = writer.WriteFull(1, {9, 10});
  const Checkpoint second = writer.WriteDelta(2, full, {3, 4});
  const Checkpoint third = writer.WriteDelta(3, second, {5}, "b");
  for (const Checkpoint& checkpoint : {full, second, third}) {
    const auto whole = ModelVersion::Load(checkpoint, {}, NoProgress).value();
    const auto wanted = RowsIn(*whole);
    REQUIRE(wanted.size() == whole->rows());
    for (uint32_t servers = 1; servers <= 3; ++servers) {
      CAPTURE(checkpoint.manifest.step, servers);
      std::map<std::pair<uint32_t, uint64_t>, std::vector<std::byte>> found;
      for (uint32_t server = 0; server < servers; ++server) {
        const ModelVersion::Options options{.share = RowShare(server, servers),
                                            .maps_rows = maps_rows};
        const auto loaded = ModelVersion::Load(checkpoint, options, NoProgress).value();
        // The same, from the first checkpoint on.
        auto grown = ModelVersion::Load(full, options, NoProgress).value();
        for (const Checkpoint& delta : {second, third}) {
          if (grown->step() < checkpoint.manifest.step) grown = grown->Next(delta).value();
        }
        const auto own = RowsIn(*loaded);
        CHECK(own == RowsIn(*grown));
        CHECK(loaded->rows() == own.size());
        CHECK(grown->rows() == own.size());
        // About its part of the memory.
        if (servers > 1) CHECK(loaded->bytes() < whole->bytes());
        for (const auto& [key, row] : own) {
          CHECK(BucketMap(servers, 4).SlotOf(key.second) / 4 == server);
          CHECK(found.emplace(key, row).second);
        }
      }
      CHECK(found == wanted);
    }
  }
}

TEST_CASE("A process gets rows in the precision that it asks for") {
  const auto kept = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8);
  const auto asked =
      GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8);
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const ModelVersion::Options options{.share = RowShare(), .row_precision = kept};
  const auto model = ModelVersion::Load(writer.WriteFull(7), options, NoProgress).value();
  const std::vector<RowRead::Group> groups = {{0, 2}, {1, 1}};
  const std::vector<uint64_t> ids = {3, 1'000, 4};
  std::vector<std::byte> memory;
  const RowAnswer answer = AnswerRead(*model, asked, groups, ids, [&](size_t bytes) -> RowMemory {
                             memory.resize(bytes);
                             return {memory, nullptr};
                           }).value();
  const RowEncoding encoding(writer.config().tables[0], asked);
  REQUIRE(answer.present == std::vector<uint8_t>{0b101});
  REQUIRE(answer.rows.size() == 2 * encoding.row_bytes());
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> row(2);
    encoding.Widen(answer.rows.data() + i * encoding.row_bytes(), row);
    CHECK(std::abs(row[0] - 7) < (kept == asked && asked == VectorPrecision::kF32 ? 1e-9 : 0.06));
    CHECK(row[0] == row[1]);
  }
}

TEST_CASE("A read of a table that the model does not have is an error") {
  const TemporaryFolder folder;
  VersionedModel writer(folder.Path("model"));
  const auto model = ModelVersion::Load(writer.WriteFull(1), {}, NoProgress).value();
  const std::vector<RowRead::Group> groups = {{2, 1}};
  const std::vector<uint64_t> ids = {1};
  const auto answer = AnswerRead(*model, VectorPrecision::kF32, groups, ids,
                                 [](size_t) -> RowMemory { return {{}, nullptr}; });
  CHECK(answer.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(answer.status().message()), Catch::Contains("no table 2"));
}

TEST_CASE("A process that others use keeps their version, and goes on with them") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  const Checkpoint first = writer.WriteFull(1);
  ShareServer server(model, RowShare(0, 2));
  const ServedVersions& versions = server.versions;
  const auto use = [&](const std::vector<Checkpoint>& checkpoints) {
    std::vector<VersionName> names;
    for (const Checkpoint& one : checkpoints) names.push_back(NameOf(one));
    server.users.Note(7, names, VersionUsers::Clock::now());
  };
  REQUIRE(Reaches(versions, 1));
  use({first});
  const Checkpoint second = writer.WriteDelta(2, first);
  REQUIRE(Reaches(versions, 2));
  use({first});
  const Checkpoint third = writer.WriteDelta(3, second);
  const Checkpoint fourth = writer.WriteDelta(4, third);
  Pause(milliseconds(50));
  CHECK(versions.Steps() == std::vector<uint64_t>{1, 2});
  use({first, second, fourth});  // Of several processes: one wants the newest.
  Pause(milliseconds(50));
  CHECK(versions.Steps() == std::vector<uint64_t>{1, 2});
  use({second});
  REQUIRE(Reaches(versions, 4));
  CHECK(versions.Steps() == std::vector<uint64_t>{2, 4});
  CHECK(versions.FindChecksum(first.checksum) == nullptr);
  CHECK(versions.FindChecksum(second.checksum) != nullptr);
}

TEST_CASE("A newer version without a user is replaced, the used one stays") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  const Checkpoint first = writer.WriteFull(1);
  ShareServer server(model, RowShare(1, 2), "latest", milliseconds(200));
  // A user for as long as the test lasts.
  server.users.Note(7, std::vector{NameOf(first)},
                    VersionUsers::Clock::now() + std::chrono::hours(1));
  REQUIRE(Reaches(server.versions, 1));
  const Checkpoint second = writer.WriteDelta(2, first);
  REQUIRE(Reaches(server.versions, 2));
  const Checkpoint third = writer.WriteDelta(3, second);
  CHECK(Reaches(server.versions, 3));
  CHECK(server.versions.FindChecksum(first.checksum) != nullptr);
  CHECK(RowsIn(*server.versions.FindChecksum(third.checksum)) ==
        RowsIn(*ModelVersion::Load(third, {.share = RowShare(1, 2)}, NoProgress).value()));
}

TEST_CASE("A process loads the version that its users want, before newer ones") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  VersionedModel writer(model);
  const Checkpoint first = writer.WriteFull(1);
  ShareServer server(model, RowShare(0, 2), "1");
  REQUIRE(Reaches(server.versions, 1));
  const Checkpoint second = writer.WriteDelta(2, first);
  const Checkpoint third = writer.WriteDelta(3, second);
  const Checkpoint fourth = writer.WriteDelta(4, third);
  const auto use = [&](const std::vector<VersionName>& names) {
    server.users.Note(7, names, VersionUsers::Clock::now());
  };
  use({NameOf(first), NameOf(third)});
  server.versions.Reload("latest");
  REQUIRE(Reaches(server.versions, 3));
  CHECK(server.versions.Steps() == std::vector<uint64_t>{1, 3});
  // At once, not after a while.
  use({NameOf(first), NameOf(second)});
  REQUIRE(Reaches(server.versions, 2));
  CHECK(server.versions.Steps() == std::vector<uint64_t>{1, 2});
  // There is none of this name: it goes on by itself.
  use({NameOf(second), {3, 12'345, 1}});
  REQUIRE(Reaches(server.versions, 4));
}

TEST_CASE("A process that is gone holds nothing back") {
  VersionUsers users(milliseconds(100));
  const auto start = VersionUsers::Clock::now();
  users.Note(1, std::vector<VersionName>{{1, 10, 0}}, start);
  users.Note(2, std::vector<VersionName>{{1, 10, 0}, {2, 11, 0}}, start + milliseconds(50));
  CHECK(users.IsUsed(10, start + milliseconds(100)));
  CHECK(users.IsUsed(11, start + milliseconds(150)));
  CHECK_FALSE(users.IsUsed(11, start + milliseconds(151)));
  users.Note(2, {}, start + milliseconds(60));
  CHECK(users.IsUsed(10, start + milliseconds(90)));
  CHECK_FALSE(users.IsUsed(11, start + milliseconds(90)));
}

// A process that predicts with rows of servers.
struct RemoteModel {
  RemoteModel(const std::string& model, uint32_t count,
              milliseconds expiry = std::chrono::seconds(10))
      : servers(std::make_shared<ShareServers>(model, count, expiry)),
        versions({.model = model,
                  .poll = milliseconds(1),
                  .loading = {.remote = servers, .hot_row_bytes = 1 << 20}},
                 registry),
        scorer({.threads = 2, .max_batch_rows = 16}, registry) {}

  StatusOr<ScoredRows> Score(const std::shared_ptr<const ModelVersion>& version, uint64_t a,
                             uint64_t b) {
    std::promise<StatusOr<ScoredRows>> answered;
    scorer.Submit(version, VersionedModel::Request(a, b), std::chrono::minutes(1),
                  [&](StatusOr<ScoredRows> scored) { answered.set_value(std::move(scored)); });
    return answered.get_future().get();
  }

  MetricRegistry registry;
  std::shared_ptr<ShareServers> servers;
  ServedVersions versions;
  Scorer scorer;
};

TEST_CASE("Answers with rows of servers are of one version while deltas and roll-backs come") {
  constexpr uint64_t kSwaps = 80;
  const TemporaryFolder folder("/dev/shm");
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  Checkpoint newest = writer.WriteFull(1);
  RemoteModel model(path, 3);
  REQUIRE(Reaches(model.versions, 1));
  std::atomic<uint64_t> answers = 0;
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::jthread> clients;
  for (uint64_t client = 0; client < 2; ++client) {
    clients.emplace_back([&, client](const std::stop_token& stop) {
      for (uint64_t i = client; !stop.stop_requested(); ++i) {
        const auto version = model.versions.Current();
        const auto scored =
            model.Score(version, i % VersionedModel::kIds, i * 7 % VersionedModel::kIds);
        if (absl::IsNotFound(scored.status()) && version != model.versions.Current()) {
          continue;  // The servers went on meanwhile.
        } else if (!scored.ok() || VersionedModel::VersionOf(*scored) != version->step()) {
          ++wrong;
        } else {
          ++answers;
        }
      }
    });
  }
  for (uint64_t version = 2; version <= kSwaps; ++version) {
    newest = version % 10 == 0 ? writer.WriteFull(version) : writer.WriteDelta(version, newest);
    if (version % 3 == 0) continue;  // Two at once.
    REQUIRE(Reaches(model.versions, version));
    if (version % 50 != 1) continue;
    const std::vector<uint64_t> steps = model.versions.Steps();
    std::ofstream(path + "/pin") << steps.front() << "\n";
    REQUIRE(Reaches(model.versions, steps.front()));
    std::filesystem::remove(path + "/pin");
    REQUIRE(Reaches(model.versions, version));
  }
  CHECK(Eventually([&] { return answers > kSwaps; }));
  clients.clear();
  CHECK(wrong == 0);
  CHECK(model.servers->cache_hits > answers / 2);
  CHECK(model.versions.Problem().empty());
}

TEST_CASE("A version waits for the slowest server, which breaks nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  Checkpoint newest = writer.WriteFull(1);
  RemoteModel model(path, 2);
  ServedVersions& slow = model.servers->all[1]->versions;
  REQUIRE(Reaches(model.versions, 1));
  slow.Reload("1");
  for (uint64_t version = 2; version <= 6; ++version) {
    newest = writer.WriteDelta(version, newest);
    REQUIRE(Eventually([&] { return model.servers->all[0]->versions.Steps().size() == 2; }));
    Pause(milliseconds(10));
    CHECK(VersionedModel::VersionOf(model.Score(model.versions.Current(), 1, 2).value()) == 1);
  }
  CHECK(model.versions.Current()->step() == 1);
  CHECK(model.versions.Problem().empty());
  CHECK_THAT(model.registry.Serialize(), !Catch::Contains("versions_refused_total"));
  slow.Reload("latest");
  REQUIRE(Reaches(model.versions, 6));
  CHECK(VersionedModel::VersionOf(model.Score(model.versions.Current(), 1, 2).value()) == 6);
}

// Servers that do not tell that they have step 3.
class BehindServers : public ShareServers {
 public:
  using ShareServers::ShareServers;
  StatusOr<std::vector<VersionName>> Use(std::span<const VersionName> used) override {
    SIMURGH_ASSIGN_OR_RETURN(std::vector<VersionName> names, ShareServers::Use(used));
    std::erase_if(names, [](const VersionName& name) { return name.step == 3; });
    return names;
  }
};

TEST_CASE("While servers load the newest version, an older one that all have is used") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  const auto servers = std::make_shared<BehindServers>(path, 2, std::chrono::seconds(10));
  const auto reach = [&](uint64_t step) {
    for (const auto& server : servers->all) REQUIRE(Reaches(server->versions, step));
  };
  reach(1);
  const Checkpoint second = writer.WriteDelta(2, first);
  reach(2);
  writer.WriteDelta(3, second);
  reach(3);
  MetricRegistry registry;
  const ServedVersions versions(
      {.model = path, .version = "latest", .poll = milliseconds(1), .loading = {.remote = servers}},
      registry);
  CHECK(Reaches(versions, 2));
}

TEST_CASE("A server that passes a version over is followed") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  RemoteModel model(path, 2, milliseconds(300));
  ServedVersions& slow = model.servers->all[1]->versions;
  REQUIRE(Reaches(model.versions, 1));
  slow.Reload("1");
  const Checkpoint second = writer.WriteDelta(2, first);
  REQUIRE(Reaches(model.servers->all[0]->versions, 2));
  writer.WriteDelta(3, second);
  slow.Reload("latest");
  REQUIRE(Reaches(slow, 3));
  CHECK(Reaches(model.versions, 3));
  CHECK(VersionedModel::VersionOf(model.Score(model.versions.Current(), 1, 2).value()) == 3);
}

TEST_CASE("Without a server requests fail, and go on with it") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  RemoteModel model(path, 2);
  REQUIRE(Reaches(model.versions, 1));
  model.servers->down = 1;
  CHECK(Eventually([&] { return model.versions.Problem() == "server 1 is gone"; }));
  int failed = 0;
  for (uint64_t id = 0; id < VersionedModel::kIds; ++id) {
    const auto scored = model.Score(model.versions.Current(), id, id);
    if (scored.ok()) CHECK(VersionedModel::VersionOf(*scored) == 1);
    failed += absl::IsUnavailable(scored.status()) ? 1 : 0;
  }
  CHECK(failed > 0);
  writer.WriteDelta(2, first);
  model.servers->down = SIZE_MAX;
  REQUIRE(Reaches(model.versions, 2));
  for (uint64_t id = 0; id < VersionedModel::kIds; ++id) {
    CHECK(VersionedModel::VersionOf(model.Score(model.versions.Current(), id, id).value()) == 2);
  }
}

TEST_CASE("Without servers there is no version, and the reason is told") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel(path).WriteFull(5);
  RemoteModel model(path, 2);
  REQUIRE(Reaches(model.versions, 5));
  model.servers->down = 0;
  MetricRegistry registry;
  ServedVersions late(
      {.model = path, .poll = milliseconds(1), .loading = {.remote = model.servers}}, registry);
  CHECK(Eventually([&] { return late.Problem() == "server 0 is gone"; }));
  CHECK(late.Current() == nullptr);
  model.servers->down = SIZE_MAX;
  CHECK(Reaches(late, 5));
}

}  // namespace
}  // namespace simurgh::testing
