// `simurgh serve` with rows of `row-server`.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "tests/cluster/model_server.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/http_get.h"
#include "tests/support/python.h"
#include "tests/support/rpc/certificates.h"
#include "tests/unit/predict/versioned_model.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""s;

// Servers of a model's rows, on sockets in a folder.
class RowServers {
 public:
  RowServers(std::string model, size_t count, const std::vector<std::string>& more = {})
      : model_(std::move(model)), processes_(count), starts_(count) {
    for (size_t i = 0; i < count; ++i) {
      addresses_.push_back(absl::StrCat("unix://", folder_.Path(absl::StrCat("rows", i))));
    }
    for (size_t i = 0; i < count; ++i) Start(i, more);
  }

  void Start(size_t i, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--model",   model_,        "--index", absl::StrCat(i),
                                      "--metrics", "127.0.0.1:0", "--set",   "serving.poll=20ms",
                                      "--set",     Setting()};
    words.insert(words.end(), more.begin(), more.end());
    processes_[i].reset();
    processes_[i] = std::make_unique<DaemonProcess>(
        "row-server", words, folder_.Path(absl::StrCat("log", i, ".", starts_[i]++)));
    INFO(processes_[i]->log());
    REQUIRE(processes_[i]->WaitForLog("listening at ", 60s));
  }

  std::string Setting() const {
    return absl::StrCat("serving.servers=", absl::StrJoin(addresses_, ","));
  }
  // For ModelServer. more: KEY=VALUE.
  std::vector<std::string> Settings(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"serving.rows=remote", Setting()});
    return more;
  }
  DaemonProcess& operator[](size_t i) { return *processes_[i]; }
  const std::string& address(size_t i) const { return addresses_[i]; }
  void Kill(size_t i) {
    processes_[i]->Signal(SIGKILL);
    processes_[i]->Wait(60s);
  }
  // SIGTERM to all.
  void Stop() {
    for (const auto& process : processes_) {
      process->Signal(SIGTERM);
      INFO(process->log());
      CHECK(process->Wait(60s) == 0);
    }
  }

 private:
  const TemporaryFolder folder_;
  const std::string model_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<DaemonProcess>> processes_;
  std::vector<int> starts_;
};

// A request of one row for a VersionedModel.
std::string RowOf(uint64_t a, uint64_t b) {
  return absl::StrCat("{\"instances\": [{\"a\": ", a, ", \"b\": ", b, "}]}");
}

// The version of an answer for one row of a VersionedModel, whose body must tell the same; 0 for an
// answer of several.
uint64_t OneVersionOf(const HttpAnswer& answer) {
  ScoredRows scored;
  for (const double p :
       PredictionsOf(absl::StrReplaceAll(answer.body, {{"[[", "["}, {"]]", "]"}}))) {
    scored.probabilities.push_back(static_cast<float>(p));
  }
  const uint64_t version = VersionedModel::VersionOf(scored);
  return version == VersionOf(answer.body) ? version : 0;
}

// Asks for rows with ids on all servers.
void CheckAnswers(const ModelServer& server, uint64_t version) {
  for (uint64_t id = 0; id < VersionedModel::kIds; id += 7) {
    const HttpAnswer answer = server.Predict(RowOf(id, VersionedModel::kIds - 1 - id));
    INFO(answer.body);
    REQUIRE(answer.code == 200);
    CHECK(OneVersionOf(answer) == version);
  }
}

// The answer to some request that fails.
HttpAnswer AwaitFailure(const ModelServer& server) {
  HttpAnswer answer;
  uint64_t id = 0;
  Await("a request fails", [&] {
    answer = server.Predict(RowOf(id % VersionedModel::kIds, id * 7 % VersionedModel::kIds));
    ++id;
    return answer.code != 200;
  });
  return answer;
}

TEST_CASE("Predictions with rows of servers are those of simurgh predict") {
  struct Model {
    std::string config;
    std::vector<std::string> overrides = {};
    std::string separators = {};  // Of lists: column=separator.
    std::string hot_row_bytes = "1000000";
  };
  const Model model = GENERATE(values<Model>(
      {{"config/adult.yaml",
        {"embedding_ps.instances=[{address: 127.0.0.1:7601}, {address: 127.0.0.1:7602}, {address: "
         "127.0.0.1:7603}]"}},
       {"config/adult.yaml",
        {"tables.0.precision=bf16", "training.calibration=0.6 1.4 -0.4"},
        {},
        "0"},
       {"", {}, "'tags=|'", "2000"}}));
  CAPTURE(model.config, model.overrides);
  const std::string python = Python("json");
  const TemporaryFolder folder;
  const Trained trained(model.config.empty() ? PoolingConfig(folder) : model.config,
                        model.overrides);
  RowServers rows(trained.model, 2);
  ModelServer server(trained.model,
                     rows.Settings({"serving.hot_row_bytes=" + model.hot_row_bytes}));
  server.AwaitReady();
  const std::string predicted = PredictedRows(trained, server.Get("/v2/models/model").body);
  const CommandResult compared =
      RunCommand(absl::StrCat(python, " tests/cluster/served_predictions.py ", server.address(),
                              " model ", predicted, " ", model.separators));
  INFO(compared.error << server.process().log());
  REQUIRE(compared.exit_code == 0);
  const std::vector<std::string> found = absl::StrSplit(Lines(compared.out).at(0), ' ');
  CHECK(found.at(0) == "114");
  CHECK(std::stod(found.at(1)) <= 1e-6);
  CHECK((server.Metric("simurgh_serve_hot_row_hits_total") > 0) == (model.hot_row_bytes != "0"));
  CHECK(server.Metric("simurgh_serve_hot_row_misses_total") > 0);
  for (size_t i = 0; i < 2; ++i) {
    const std::string metrics = HttpGet(rows[i].metrics_address(), "/metrics");
    CHECK_THAT(metrics, Contains("simurgh_serve_read_ids_total ") &&
                            Contains("simurgh_serve_model_step 60"));
    CHECK_THAT(HttpGet(rows[i].metrics_address(), "/readyz"), Contains("200 OK"));
  }
  CHECK(server.Stop() == 0);
  rows.Stop();
}

TEST_CASE("Rows in files or of lower precision predict as those in memory") {
  struct Rows {
    std::vector<std::string> settings;
    double most;  // Largest difference of a prediction.
    size_t servers = 0;
    std::vector<std::string> of_servers = {};
  };
  const std::string python = Python("json");
  const Trained trained("config/adult.yaml", {GENERATE(as<std::string>(), "tables.0.precision=f32",
                                                       "tables.0.precision=f16")});
  const std::vector<std::string> int8 = {"--set", "serving.row_precision=int8"};
  std::vector<uint64_t> bytes;  // Bytes read in f32, bf16 and int8.
  for (const Rows& rows : std::vector<Rows>{
           {{"serving.row_precision=f32"}, 1e-6},
           {{"serving.row_precision=bf16"}, 1e-2},
           {{"serving.row_precision=int8"}, 1e-2},
           {{"serving.rows=mapped"}, 1e-6},
           {{"serving.row_precision=int8"}, 1e-2, 2, int8},
           {{}, 1e-6, 2, {"--set", "serving.rows=mapped"}},
           {{"serving.row_precision=bf16"}, 1e-2, 2, {"--set", "serving.rows=mapped"}}}) {
    CAPTURE(rows.settings, rows.of_servers);
    RowServers servers(trained.model, rows.servers, rows.of_servers);
    ModelServer server(trained.model,
                       rows.servers > 0 ? servers.Settings(rows.settings) : rows.settings);
    server.AwaitReady();
    const std::string predicted = PredictedRows(trained, server.Get("/v2/models/model").body);
    const CommandResult compared = RunCommand(absl::StrCat(
        python, " tests/cluster/served_predictions.py ", server.address(), " model ", predicted));
    INFO(compared.error << server.process().log());
    REQUIRE(compared.exit_code == 0);
    const std::vector<std::string> found = absl::StrSplit(Lines(compared.out).at(0), ' ');
    CHECK(std::stod(found.at(1)) <= rows.most);
    if (bytes.size() < 3) {
      const std::string log = server.process().log();
      bytes.push_back(std::stoull(log.substr(log.find(" bytes=") + 7)));
    }
    CHECK(server.Stop() == 0);
    servers.Stop();
  }
  CHECK(bytes[2] < bytes[1]);
  CHECK(bytes[1] <= bytes[0]);
}

TEST_CASE("A server of predictions refuses rows of a lower precision than its own") {
  const TemporaryFolder folder("/dev/shm");
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  writer.WriteFull(1);
  RowServers rows(path, 2, {"--set", "serving.row_precision=int8"});
  ModelServer server(path, rows.Settings());
  Await("a reason", [&] {
    return absl::StrContains(server.Get("/v2/health/ready").body,
                             "and the serving.row_precision of the servers of rows");
  });
  CHECK(server.Stop() == 0);
}

TEST_CASE("Deltas arrive while requests run, and every answer is of one version") {
  const TemporaryFolder folder("/dev/shm");
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  Checkpoint newest = writer.WriteFull(1);
  RowServers rows(path, 2);
  ModelServer server(path, rows.Settings());
  server.AwaitVersion(1);
  struct Seen {
    std::set<uint64_t> versions;
    std::string wrong;
    std::atomic<uint64_t> newest = 0;  // The largest number after a wrong answer.
  };
  std::vector<Seen> all(2);
  std::vector<std::jthread> clients;
  for (size_t client = 0; client < all.size(); ++client) {
    clients.emplace_back([&, client](const std::stop_token& stop) {
      Seen& seen = all[client];
      for (uint64_t i = client; !stop.stop_requested() && seen.wrong.empty(); ++i) {
        const HttpAnswer answer =
            server.Predict(RowOf(i % VersionedModel::kIds, i * 7 % VersionedModel::kIds));
        const uint64_t version = answer.code == 200 ? OneVersionOf(answer) : 0;
        if (version == 0) seen.wrong = absl::StrCat(answer.code, " ", answer.body);
        seen.versions.insert(version);
        seen.newest = version == 0 ? UINT64_MAX : version;
      }
    });
  }
  for (uint64_t version = 2; version <= 60; ++version) {
    newest = version % 10 == 0 ? writer.WriteFull(version) : writer.WriteDelta(version, newest, {});
    if (version % 4 == 0) continue;  // Two at once.
    Await("answers of the version", [&] {
      return std::ranges::all_of(all, [&](const Seen& seen) { return seen.newest >= version; });
    });
  }
  // Back, and on again.
  std::ofstream(path + "/pin") << 59 << "\n";
  server.AwaitVersion(59);
  std::filesystem::remove(path + "/pin");
  server.AwaitVersion(60);
  CheckAnswers(server, 60);
  clients.clear();
  for (const Seen& seen : all) {
    CHECK(seen.wrong == "");
    CHECK(seen.versions.size() > 20);
  }
  INFO(server.process().log() << rows[0].log());
  CHECK_THAT(server.process().log(), !Contains("is not used: "));
  CHECK(server.Stop() == 0);
  rows.Stop();
}

TEST_CASE("Without one of the servers requests get 503, and go on when it is back") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  RowServers rows(path, 2);
  // Without a cache each request needs a server.
  ModelServer server(path, rows.Settings({"serving.hot_row_bytes=0"}));
  server.AwaitVersion(1);
  CheckAnswers(server, 1);
  const auto check_failure = [&] {
    const HttpAnswer failed = AwaitFailure(server);
    CHECK(failed.code == 503);
    CHECK_THAT(failed.body, Contains("serving.servers.1") && Contains(rows.address(1)));
    CHECK_THAT(failed.head, Contains("Retry-After: "));
    Await("the server is not ready", [&] { return server.Get("/v2/health/ready").code == 503; });
    CHECK_THAT(server.Get("/v2/health/ready").body, Contains(rows.address(1)));
    CHECK(server.Get("/v2/health/live").code == 200);
  };

  rows.Kill(1);
  check_failure();
  // Ids of the other one are still answered.
  uint64_t answered = 0;
  for (uint64_t id = 0; id < VersionedModel::kIds; ++id) {
    answered += server.Predict(RowOf(id, id)).code == 200 ? 1 : 0;
  }
  CHECK(answered > 0);
  CHECK(answered < VersionedModel::kIds);
  rows.Start(1);
  server.AwaitReady();
  CheckAnswers(server, 1);

  // The trainer goes on meanwhile.
  rows[1].Signal(SIGSTOP);
  check_failure();
  Checkpoint newest = first;
  for (uint64_t version = 2; version <= 5; ++version) newest = writer.WriteDelta(version, newest);
  Await("the other server has a newer one", [&] {
    return absl::StrContains(HttpGet(rows[0].metrics_address(), "/metrics"),
                             "simurgh_serve_versions_loaded_total 2");
  });
  rows[1].Signal(SIGCONT);
  server.AwaitVersion(5);
  server.AwaitReady();
  CheckAnswers(server, 5);
  CHECK(server.Metric(absl::StrCat("simurgh_serve_row_read_failures_total{server=\"",
                                   rows.address(1), "\"}")) > 0);

  // A restart with only a version that the others do not have: they go on.
  rows.Kill(1);
  writer.WriteDelta(6, newest);
  rows.Start(1);
  server.AwaitVersion(6);
  server.AwaitReady();
  CheckAnswers(server, 6);

  // A stop does not wait for a server.
  rows[1].Signal(SIGSTOP);
  AwaitFailure(server);
  const auto start = std::chrono::steady_clock::now();
  CHECK(server.Stop() == 0);
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  rows[1].Signal(SIGCONT);
  rows.Stop();
}

TEST_CASE("A server that is late with versions holds the others back, and breaks nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  Checkpoint newest = writer.WriteFull(1);
  const auto configure = [&](const std::string& version) {
    return folder.Write("late.yaml", absl::StrCat("serving: {version: ", version, "}\n"));
  };
  RowServers rows(path, 2);
  rows.Kill(1);
  rows.Start(1, {"--config", configure("1")});
  ModelServer server(path, rows.Settings());
  server.AwaitVersion(1);
  for (uint64_t version = 2; version <= 4; ++version) {
    newest = writer.WriteDelta(version, newest);
    Await("the other server has it, or waits", [&] {
      return absl::StrContains(rows[0].log(), absl::StrCat("step ", version, " is in use")) ||
             absl::StrContains(rows[0].log(), absl::StrCat("step ", version, " waits"));
    });
    CheckAnswers(server, 1);
  }
  CHECK_THAT(server.process().log(), !Contains("is not used: "));
  CHECK(server.Get("/v2/health/ready").code == 200);
  configure("latest");
  rows[1].Signal(SIGHUP);
  server.AwaitVersion(4);
  CheckAnswers(server, 4);
  CHECK(server.Stop() == 0);
  rows.Stop();
}

TEST_CASE("A version that a request names is not replaced by another") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  RowServers rows(path, 2);
  ModelServer server(path, rows.Settings());
  server.AwaitVersion(1);
  const Checkpoint second = writer.WriteDelta(2, first);
  server.AwaitVersion(2);
  // Both are there, until the servers go on.
  CHECK(OneVersionOf(server.Predict(RowOf(1, 2), 1)) == 1);
  CHECK(OneVersionOf(server.Predict(RowOf(1, 2), 2)) == 2);
  CHECK(server.Predict(RowOf(1, 2), 3).code == 404);
  // A restarted server has the newest only.
  for (size_t i = 0; i < 2; ++i) {
    rows.Kill(i);
    rows.Start(i);
  }
  server.AwaitReady();
  Await("version 1 is gone", [&] { return server.Predict(RowOf(3, 4), 1).code == 404; });
  CHECK_THAT(server.Predict(RowOf(3, 4), 1).body, Contains("version 1"));
  CHECK(OneVersionOf(server.Predict(RowOf(3, 4), 2)) == 2);
  CheckAnswers(server, 2);
  CHECK(server.Stop() == 0);
  rows.Stop();
}

TEST_CASE("Servers of another order, number or model are refused with the reason") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel(path).WriteFull(1);
  RowServers rows(path, 2);
  std::string model = path;
  std::string servers;
  std::string reason;
  SECTION("in another order") {
    servers = absl::StrCat(rows.address(1), ",", rows.address(0));
    reason = "is row-server 1";
  }
  SECTION("a third one") {
    servers = absl::StrCat(rows.address(0), ",", rows.address(1), ",", rows.address(1));
    reason = "of 2, here it is ";
  }
  SECTION("only one of them") {
    servers = rows.address(0);
    reason = "is server 0 of 2, here it is 0 of 1";
  }
  SECTION("of another model") {
    servers = absl::StrCat(rows.address(0), ",", rows.address(1));
    model = folder.Path("other");
    VersionedModel(model, /*run=*/2).WriteFull(1);
    reason = "has the rows of another model";
  }
  ModelServer server(model,
                     {"serving.rows=remote", "serving.name=model", "serving.servers=" + servers});
  INFO(server.process().log());
  CHECK(server.process().WaitForLog(reason, 60s));
  const HttpAnswer answer = server.Predict(RowOf(1, 2));
  CHECK(answer.code == 503);
  CHECK_THAT(answer.body, Contains("serving.servers") && Contains(reason));
  CHECK(server.Stop() == 0);
  rows.Stop();
}

TEST_CASE("One file serves both programs, with a token and TLS between them") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel(path).WriteFull(1);
  const auto write_token = [&](const std::string& name, char letter) {
    const std::string token = folder.Write(name, std::string(40, letter) + "0");
    std::filesystem::permissions(token, std::filesystem::perms(0600));
  };
  write_token("token", 'a');
  write_token("other_token", 'b');
  rpc::testing::TestAuthority authority;
  const rpc::TlsOptions files = authority.Issue("localhost");
  const auto write_config = [&](const std::string& token) {
    return folder.Write(
        token + ".yaml",
        absl::StrCat("cluster: {name: ads, token_file: ", token,
                     "}\nrpc: {security: tls, tls: {certificate: ", files.certificate_file,
                     ", key: ", files.key_file, ", authority: ", files.authority_file,
                     ", peer_name: localhost}}\nserving: {rows: remote, model: ", path,
                     ", servers: [\"", OwnHost(), ":9100\"]}\n"));
  };
  DaemonProcess rows("row-server", {"--model", path, "--config", write_config("token")},
                     folder.Path("log"));
  INFO(rows.log());
  REQUIRE(rows.WaitForLog("listening at ", 60s));
  {
    ModelServer server(path, {}, {write_config("token")});
    server.AwaitVersion(1);
    CheckAnswers(server, 1);
    CHECK(server.Stop() == 0);
  }
  ModelServer server(path, {}, {write_config("other_token")});
  CHECK(server.process().WaitForLog("another token", 60s));
  CHECK(server.Predict(RowOf(1, 2)).code == 503);
  CHECK(server.Stop() == 0);
  rows.Signal(SIGTERM);
  CHECK(rows.Wait(60s) == 0);
}

TEST_CASE("row-server waits for a model, and checks its arguments") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  const auto run = [&](const std::string& arguments) {
    return RunCommand(absl::StrCat(Program("row-server"), " ", arguments, " 2>&1"));
  };
  const std::string servers = " --set serving.servers=127.0.0.1:9100,127.0.0.1:9101";
  CHECK(run("--model " + path + servers + " --check-config").out == "ok\n");
  const CommandResult no_servers = run("--model " + path);
  CHECK(no_servers.exit_code == 2);
  CHECK_THAT(no_servers.out, Contains("serving.servers is missing"));
  const CommandResult index = run("--model " + path + servers + " --index 2");
  CHECK(index.exit_code == 2);
  CHECK_THAT(index.out, Contains("2 entries in serving.servers"));
  CHECK(run("--model " + path + " --set serving.servers=host").exit_code == 2);
  CHECK_THAT(run("--model " + path + " --help").out, Contains("--model MODEL [options]"));

  RowServers rows(path, 1);
  Await("the server serves metrics", [&] { return !rows[0].metrics_address().empty(); });
  Await("the reason",
        [&] { return absl::StrContains(HttpGet(rows[0].metrics_address(), "/readyz"), path); });
  CHECK_THAT(HttpGet(rows[0].metrics_address(), "/readyz"), Contains("503"));
  CHECK_THAT(HttpGet(rows[0].metrics_address(), "/healthz"), Contains("200 OK"));
  VersionedModel(path).WriteFull(5);
  Await("the server is ready",
        [&] { return absl::StrContains(HttpGet(rows[0].metrics_address(), "/readyz"), "200 OK"); });
  rows.Stop();
}

}  // namespace
}  // namespace simurgh::testing
