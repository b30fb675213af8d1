// `simurgh serve` with models that trainers have left, asked over HTTP.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "tests/cluster/model_server.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/python.h"
#include "tests/support/rpc/certificates.h"
#include "tests/support/skip.h"
#include "tests/unit/model/model_files.h"
#include "tests/unit/services/serving/raw_client.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""s;

constexpr char kOneRow[] = R"({"instances": [{"age": 39, "workclass": "Private"}]})";

// Its folder is not changed.
const Trained& Adult() {
  static const Trained trained("config/adult.yaml");
  return trained;
}

TEST_CASE("All protocols answer with the predictions of simurgh predict") {
  struct Model {
    std::string config;
    std::string separators = {};  // Of lists: column=separator.
  };
  const Model model = GENERATE(values<Model>({{"adult"},
                                              {"adult-features"},
                                              {"adult-tasks"},
                                              {"adult-plugin"},
                                              {"criteo-synthetic"},
                                              {"", "'tags=|'"}}));
  CAPTURE(model.config);
  const std::string python = Python("json");
  const TemporaryFolder folder;
  std::vector<std::string> overrides;
  std::vector<std::string> settings;
  std::string config = "config/" + model.config + ".yaml";
  if (model.config.empty()) {
    config = PoolingConfig(folder);
  } else if (model.config == "criteo-synthetic") {  // Its data are not committed.
    overrides = {"data.train=[" + Generate(folder, "train.tsv") + "]",
                 "data.test=[" + Generate(folder, "test.tsv", "--first 4000") + "]",
                 "training.batch_size=64"};
  } else if (model.config == "adult-plugin") {
    overrides = {absl::StrCat("features.8.plugin.path=", SOFT_BINS_PLUGIN),
                 absl::StrCat("data.derived.0.plugin.path=", SOFT_BINS_PLUGIN)};
    settings.emplace_back("serving.allow_plugins=true");
  } else if (model.config == "adult-tasks") {
    overrides = {"training.calibration=0.7 0.2, 1.6 0.4 -0.3"};
  }
  const Trained trained(config, overrides);
  ModelServer server(trained.model, settings);
  server.AwaitReady();
  const std::string rows = PredictedRows(trained, server.Get("/v2/models/model").body);
  const CommandResult compared =
      RunCommand(absl::StrCat(python, " tests/cluster/served_predictions.py ", server.address(),
                              " model ", rows, " ", model.separators));
  INFO(compared.error << server.process().log());
  REQUIRE(compared.exit_code == 0);
  const std::vector<std::string> found = absl::StrSplit(Lines(compared.out).at(0), ' ');
  CHECK(found.at(0) == "114");
  CHECK(std::stod(found.at(1)) <= 1e-6);
  CHECK(server.Stop() == 0);
}

TEST_CASE("Clients of Triton ask in their ways, also over TLS with a token") {
  const std::string python = Python("numpy, tritonclient.http.aio");
  const Trained& trained = Adult();
  const TemporaryFolder folder;
  // Some rows suffice; the client puts each of them into objects.
  const std::string rows = folder.Path("rows.csv");
  const auto ask = [&](const std::string& url, const std::string& more) {
    const CommandResult asked = RunCommand(
        absl::StrCat(python, " tests/cluster/serve_clients.py ", url, " model ", rows, more));
    INFO(asked.error);
    CHECK(asked.exit_code == 0);
    CHECK(asked.out == "5 300\n");
  };
  {
    ModelServer server(trained.model);
    server.AwaitReady();
    REQUIRE(RunCommand(absl::StrCat("head -301 ",
                                    PredictedRows(trained, server.Get("/v2/models/model").body),
                                    " > ", rows))
                .exit_code == 0);
    ask("http://" + server.address(), "");
    CHECK(server.Stop() == 0);
  }
  rpc::testing::TestAuthority authority;
  const rpc::TlsOptions files = authority.Issue("server");
  const std::string token = folder.Write("token", "0123456789abcdef0123456789abcdef01234567");
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  ModelServer server(trained.model,
                     {"serving.security=tls", "serving.tls.certificate=" + files.certificate_file,
                      "serving.tls.key=" + files.key_file, "serving.token_file=" + token});
  REQUIRE(server.process().WaitForLog(" is in use: ", 60s));
  const auto with = [&](const rpc::testing::TestAuthority& one) {
    return absl::StrCat(" --ca ", one.certificate_file(), " --token ", token);
  };
  ask("https://" + server.address(), with(authority));

  // Another certificate, as before the old one ends.
  rpc::testing::TestAuthority other;
  const rpc::TlsOptions renewed = other.Issue("server");
  using std::filesystem::copy_options;
  std::filesystem::copy_file(renewed.certificate_file, files.certificate_file,
                             copy_options::overwrite_existing);
  std::filesystem::copy_file(renewed.key_file, files.key_file, copy_options::overwrite_existing);
  server.process().Signal(SIGHUP);
  REQUIRE(server.process().WaitForLog("SIGHUP: reloaded", 60s));
  ask("https://" + server.address(), with(other));
  CHECK(RunCommand(absl::StrCat(python, " tests/cluster/serve_clients.py https://",
                                server.address(), " model ", rows, with(authority)))
            .exit_code != 0);
  CHECK(server.Stop() == 0);
}

// The blocks of a language in a document.
std::vector<std::string> BlocksIn(const std::string& path, const std::string& language) {
  std::vector<std::string> blocks;
  const std::string text = ReadText(path);
  const std::string begin_of_block = absl::StrCat("```", language, "\n");
  for (size_t at = text.find(begin_of_block); at != text.npos;
       at = text.find(begin_of_block, at + 1)) {
    const size_t begin = at + begin_of_block.size();
    blocks.push_back(text.substr(begin, text.find("```", begin) - begin));
  }
  return blocks;
}

// Runs commands as a reader of the documentation would, whose home is the folder.
CommandResult RunBlocks(const std::vector<std::string>& blocks, const TemporaryFolder& folder) {
  if (RunCommand("curl --version").exit_code != 0) SIMURGH_SKIP("no curl");
  std::filesystem::create_symlink(std::filesystem::absolute("config"), folder.Path("config"));
  // Asks until the server is ready.
  std::string script = absl::StrCat(
      "set -e\ncd ", folder.path(), "\nexport HOME=$PWD\n",
      "curl() { command curl -sS --fail-with-body --retry 60 --retry-delay 1 --retry-all-errors "
      "\"$@\"; }\n");
  for (const std::string& block : blocks) {
    absl::StrAppend(&script, block, "for job in $(jobs -p); do kill $job; wait $job; done\n");
  }
  const std::string host = OwnHost();
  script = absl::StrReplaceAll(
      script,
      {{"build/release/bin", std::filesystem::absolute(Program("simurgh")).parent_path().string()},
       {"/tmp/adult", folder.Path("adult")},
       {"127.0.0.1", host},
       {"simurgh serve", absl::StrCat("simurgh serve --set serving.listen=", host, ":8000")}});
  CommandResult result = RunCommand("bash " + folder.Write("commands", script));
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  return result;
}

TEST_CASE("The commands of the server's documentation train, serve and ask") {
  const TemporaryFolder folder;
  std::vector<std::string> blocks = BlocksIn("services/serving/README.md", "sh");
  REQUIRE(blocks.size() == 3);
  blocks.erase(blocks.begin() + 1);     // It needs a model of two towers, as README.md makes one.
  CHECK(Lines(blocks[0]).size() == 4);  // The programs' folder, and three commands.
  CHECK_THAT(RunBlocks(blocks, folder).out, Contains("test_auc=") &&
                                                Contains("\"predictions\":[0.") &&
                                                Contains("\"name\":\"adult\",\"versions\":["));
}

TEST_CASE("The commands of the README make configurations, train, update, predict and serve") {
  const TemporaryFolder folder;
  std::string rows = "clicked,site,ad,age\n";
  for (int row = 0; row < 2'000; ++row) {
    absl::StrAppend(&rows, row % 7 % 2, ",site", row % 7, ",ad", row % 5, ",", row % 60, ".5\n");
  }
  folder.Write("clicks.csv", rows);
  folder.Write("tuesday.csv", rows);
  folder.Write("new.csv", rows);
  std::string likes = "site,ad\n";
  for (int row = 0; row < 200; ++row)
    absl::StrAppend(&likes, "site", row % 7, ",ad", row % 5, "\n");
  folder.Write("likes.csv", likes);
  folder.Write("ads.csv", "ad,color\nad0,red\nad1,blue\nad2,red\nad3,red\nad4,blue\n");
  const std::vector<std::string> blocks = BlocksIn("README.md", "sh");
  REQUIRE(blocks.size() == 4);
  CHECK_THAT(RunBlocks(blocks, folder).out,
             Contains("test_auc=") && Contains("before_auc=") && Contains("\"predictions\":[0.") &&
                 Contains("test_recall@20=") && Contains("\"rank_model_version\":"));
  const std::vector<std::string> scores = Lines(ReadText(folder.Path("scores.csv")));
  CHECK(scores.size() == 2'001);
  CHECK(scores.at(0) == "site,p");
}

TEST_CASE("A stop answers the requests that have arrived") {
  ModelServer server(Adult().model, {"serving.threads=1"});
  server.AwaitReady();
  const double wanted = PredictionsOf(server.Predict(kOneRow).body).at(0);

  // Clients that ask one request after the other, until their connection ends.
  struct Load {
    std::atomic<uint64_t> answered = 0;
    uint64_t wrong = 0;
    uint64_t lost_early = 0;  // Before the stop.
  };
  constexpr size_t kClients = 4;
  std::atomic<bool> stopping = false;
  std::vector<Load> loads(kClients);
  std::vector<std::jthread> threads;
  for (Load& load : loads) {
    threads.emplace_back([&] {
      RawClient client(server.address());
      for (;;) {
        const bool is_late = stopping;
        HttpAnswer answer;
        if (client.Send(PredictRequestOf("/v1/models/model", kOneRow))) {
          answer = ParseAnswer(client.ReadResponse());
        }
        if (answer.code == 200) {
          if (std::abs(PredictionsOf(answer.body).at(0) - wanted) > 1e-6) ++load.wrong;
          ++load.answered;
        } else if (answer.code != 503) {
          // What was sent while the server stopped may not have arrived.
          if (!is_late && !stopping) ++load.lost_early;
          return;
        }
      }
    });
  }

  // Requests that the server has accepted, and whose bodies arrive after the signal.
  std::string body = R"({"instances": [)";
  for (int row = 0; row < 4'000; ++row) absl::StrAppend(&body, row == 0 ? "" : ",", "{}");
  body += R"(], "common": {"age": 39, "workclass": "Private"}})";
  const std::string request =
      PredictRequestOf("/v1/models/model", body, "Expect: 100-continue\r\n");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.address()));
    REQUIRE(clients.back()->Send(request.substr(0, request.size() - body.size())));
  }
  for (const auto& client : clients) {
    REQUIRE(client->ReadResponse() == "HTTP/1.1 100 Continue\r\n\r\n");
  }
  Await("each client is answered", [&] {
    return std::ranges::all_of(loads, [](const Load& load) { return load.answered >= 10; });
  });
  stopping = true;
  server.process().Signal(SIGTERM);
  Await("the server accepts no connections", [&] {
    try {
      RawClient{server.address()};  // NOLINT(bugprone-unused-raii)
    } catch (const boost::system::system_error&) {
      return true;
    }
    return false;
  });
  for (const auto& client : clients) REQUIRE(client->Send(body));
  for (const auto& client : clients) {
    const HttpAnswer answer = ParseAnswer(client->ReadToEnd());
    REQUIRE(answer.code == 200);
    const std::vector<double> predictions = PredictionsOf(answer.body);
    REQUIRE(predictions.size() == 4'000);
    CHECK(std::ranges::all_of(predictions, [&](double p) { return std::abs(p - wanted) <= 1e-6; }));
  }
  threads.clear();
  for (const Load& load : loads) {
    CHECK(load.wrong == 0);
    CHECK(load.lost_early == 0);
  }
  INFO(server.process().log());
  CHECK(server.process().Wait(60s) == 0);
  CHECK_THAT(server.process().log(), !Contains("at the deadline"));
}

TEST_CASE("SIGHUP reads tokens and version again") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  const TrainerOutcome outcome =
      RunStandalone({.config = "config/adult.yaml",
                     .overrides = {"checkpoint.directory=" + model, "training.max_steps=60",
                                   "checkpoint.at_steps=[30]"}});
  REQUIRE(outcome.exit_code == 0);
  const std::string tokens = folder.Path("tokens");
  const auto write_token = [&](char letter) {
    std::ofstream(tokens) << std::string(40, letter) << '0';
    std::filesystem::permissions(tokens, std::filesystem::perms(0600));
  };
  write_token('a');
  const auto write_config = [&](const std::string& version) {
    return folder.Write("serving.yaml", absl::StrCat("serving: {token_file: ", tokens,
                                                     ", version: ", version, "}\n"));
  };
  ModelServer server(model, {}, {write_config("30")});
  server.AwaitReady();
  const auto ask = [&](const std::string& token) {
    RawClient client(server.address());
    client.Send(PredictRequestOf(
        "/v1/models/model", kOneRow,
        absl::StrCat("Connection: close\r\n",
                     token.empty() ? "" : absl::StrCat("Authorization: Bearer ", token, "\r\n"))));
    return ParseAnswer(client.ReadToEnd());
  };
  const std::string old_token = std::string(40, 'a') + '0';
  const std::string new_token = std::string(40, 'b') + '0';
  CHECK(ask("").code == 401);
  CHECK(ask(new_token).code == 401);
  CHECK(VersionOf(ask(old_token).body) == 30);

  write_token('b');
  write_config("60");
  server.process().Signal(SIGHUP);
  server.AwaitVersion(60);
  Await("the new token", [&] { return ask(new_token).code == 200; });
  CHECK(ask(old_token).code == 401);
  CHECK(VersionOf(ask(new_token).body) == 60);

  std::filesystem::permissions(tokens, std::filesystem::perms(0644));
  write_config("30");
  server.process().Signal(SIGHUP);
  REQUIRE(server.process().WaitForLog("SIGHUP: kept the running configuration: ", 60s));
  CHECK(VersionOf(ask(new_token).body) == 60);
  CHECK(server.Stop() == 0);
}

// Sends all requests before it reads an answer.
std::vector<HttpAnswer> AskAtOnce(const ModelServer& server,
                                  const std::vector<std::string>& bodies) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < bodies.size(); ++i) {
    clients.push_back(std::make_unique<RawClient>(server.address()));
  }
  for (size_t i = 0; i < bodies.size(); ++i) {
    clients[i]->Send(PredictRequestOf("/v1/models/model", bodies[i], "Connection: close\r\n"));
  }
  std::vector<HttpAnswer> answers;
  for (const auto& client : clients) answers.push_back(ParseAnswer(client->ReadToEnd()));
  return answers;
}

TEST_CASE("A bad request does not touch the others of its batch") {
  const bool is_empty = GENERATE(false, true);
  CAPTURE(is_empty);
  ModelServer server(Adult().model,
                     {"serving.threads=1", "serving.batch_delay=100ms",
                      absl::StrCat("serving.bad_rows=", is_empty ? "empty" : "fail")});
  server.AwaitReady();
  const auto row = [](const std::string& age) {
    return absl::StrCat("{\"age\": ", age, ", \"workclass\": \"Private\"}");
  };
  std::vector<double> wanted;
  std::vector<std::string> bodies;
  for (int i = 0; i < 8; ++i) {
    bodies.push_back(absl::StrCat("{\"instances\": [", row(absl::StrCat(20 + i)), "]}"));
    wanted.push_back(PredictionsOf(server.Predict(bodies.back()).body).at(0));
  }
  CHECK(std::abs(wanted[0] - wanted[7]) > 1e-4);
  for (size_t i = 0; i < 8; i += 2) {
    bodies.insert(bodies.begin() + static_cast<ptrdiff_t>(i * 2),
                  absl::StrCat("{\"instances\": [", row(absl::StrCat(20 + i)), ", ", row("\"abc\""),
                               ", ", row(absl::StrCat(21 + i)), "]}"));
    bodies.push_back("{\"instances\": [{\"years\": 1}]}");
  }
  // Until some of them were in one batch.
  const std::string batches = "simurgh_serve_batch_rows_count";
  size_t shared = 0;
  Await("requests share a batch", [&] {
    const double before = server.Metric(batches);
    const std::vector<HttpAnswer> answers = AskAtOnce(server, bodies);
    shared = server.Metric(batches) - before < 8;
    std::vector<double> found;
    for (size_t i = 0; i < bodies.size(); ++i) {
      INFO(bodies[i] << answers[i].body);
      if (absl::StrContains(bodies[i], "years")) {
        REQUIRE(answers[i].code == 400);
        REQUIRE_THAT(answers[i].body, Contains("years"));
      } else if (!absl::StrContains(bodies[i], "abc")) {
        REQUIRE(answers[i].code == 200);
        found.push_back(PredictionsOf(answers[i].body).at(0));
      } else if (is_empty) {
        REQUIRE(answers[i].code == 200);
        const std::vector<double> predictions = PredictionsOf(answers[i].body);
        REQUIRE(predictions.size() == 3);
        REQUIRE(std::isnan(predictions[1]));
        REQUIRE(std::ranges::any_of(
            wanted, [&](double p) { return std::abs(p - predictions[0]) <= 1e-6; }));
        REQUIRE(std::ranges::any_of(
            wanted, [&](double p) { return std::abs(p - predictions[2]) <= 1e-6; }));
      } else {
        REQUIRE(answers[i].code == 400);
        REQUIRE_THAT(answers[i].body, Contains("row 1") && Contains("age") && Contains("abc") &&
                                          !Contains("row 0") && !Contains("row 2"));
      }
    }
    REQUIRE(found.size() == wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) REQUIRE(std::abs(found[i] - wanted[i]) <= 1e-6);
    return shared > 0;
  });
  CHECK(server.Stop() == 0);
}

TEST_CASE("Overload is refused at once, and ends with the load") {
  ModelServer server(Adult().model, {"serving.threads=1", "serving.queue_timeout=20ms"});
  server.AwaitReady();
  std::string body = R"({"common": {"age": 39, "workclass": "Private"}, "instances": [)";
  for (int row = 0; row < 4'096; ++row) absl::StrAppend(&body, row == 0 ? "" : ",", "{}");
  body += "]}";
  const double wanted = PredictionsOf(server.Predict(kOneRow).body).at(0);
  std::atomic<uint64_t> accepted = 0;
  std::atomic<uint64_t> refused = 0;
  std::atomic<uint64_t> wrong = 0;
  std::atomic<bool> ends = false;
  {
    std::vector<std::jthread> threads;
    for (int client = 0; client < 24; ++client) {
      threads.emplace_back([&] {
        RawClient connection(server.address());
        while (!ends) {
          connection.Send(PredictRequestOf("/v1/models/model", body));
          const HttpAnswer answer = ParseAnswer(connection.ReadResponse());
          if (answer.code == 200) {
            const std::vector<double> predictions = PredictionsOf(answer.body);
            const bool is_right =
                predictions.size() == 4'096 && std::abs(predictions.back() - wanted) <= 1e-6;
            ++(is_right ? accepted : wrong);
          } else if (answer.code == 503 && absl::StrContains(answer.head, "\r\nRetry-After: ")) {
            ++refused;
          } else {
            ++wrong;
            return;
          }
        }
      });
    }
    Await("requests are accepted, and others refused",
          [&] { return wrong > 0 || (accepted >= 100 && refused >= 100); });
    // Refused for their rows, not for their connections.
    CHECK(server.Get("/v2/health/ready").code == 200);
    ends = true;
  }
  CHECK(wrong == 0);
  Await("all are accepted again", [&] {
    for (int i = 0; i < 30; ++i) {
      if (server.Predict(body).code != 200) return false;
    }
    return true;
  });
  CHECK(server.Stop() == 0);
}

// The number of connections: `most`, or fewer if the limit of open files is lower.
size_t AllowedConnections(size_t most) {
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  constexpr rlim_t kOthers = 200;
  return std::min<size_t>(most, limit.rlim_max - std::min(limit.rlim_max, kOthers));
}

TEST_CASE("Idle, slow and oversized connections take bounded memory") {
  const size_t connections = AllowedConnections(10'000);
  if (connections < 2'000) SIMURGH_SKIP("this process may open too few files");
  // All stay, or new ones close the ones that wait.
  const size_t most = GENERATE_COPY(size_t{1'024}, connections + 50);
  CAPTURE(connections, most);
  constexpr size_t kMaxBody = size_t{1} << 20;
  ModelServer server(Adult().model, {absl::StrCat("serving.max_connections=", most),
                                     absl::StrCat("serving.max_body_bytes=", kMaxBody),
                                     "serving.request_timeout=60m"});
  server.AwaitReady();
  const double wanted = PredictionsOf(server.Predict(kOneRow).body).at(0);
  const auto resident = [&] {
    return server.Metric("simurgh_process_resident_bytes{process=\"serve\"}") +
           server.Metric("simurgh_process_resident_bytes");
  };
  const double before = resident();
  REQUIRE(before > 0);
  const std::string header_begin = "POST /v1/models/model:predict HTTP/1.1\r\n";
  const std::vector<std::string> kinds = {
      "",                                                           // Idle.
      "P",                                                          // Slow.
      absl::StrCat(header_begin, "X: ", std::string(10'000, 'x')),  // Slow, with a large header.
      absl::StrCat(header_begin, "X: ", std::string(20'000, 'x')),  // Too large a header.
      absl::StrCat(header_begin, "Content-Length: ", kMaxBody + 1,
                   "\r\n\r\n"),  // Too large a body.
      absl::StrCat(header_begin, "Content-Length: ", kMaxBody, "\r\n\r\n",
                   std::string(100'000, ' ')),  // A large body, of which the end is missing.
  };
  boost::asio::io_context context;  // One for all: each has descriptors of its own.
  std::vector<RawClient::tcp::socket> clients;
  const size_t colon = server.address().rfind(':');
  const RawClient::tcp::endpoint endpoint(
      boost::asio::ip::make_address(server.address().substr(0, colon)),
      static_cast<uint16_t>(std::stoi(server.address().substr(colon + 1))));
  double largest = 0;
  for (size_t i = 0; i < connections; ++i) {
    clients.emplace_back(context).connect(endpoint);
    boost::system::error_code closed;  // The server may refuse before it has all.
    boost::asio::write(clients.back(), boost::asio::buffer(kinds[i % kinds.size()]), closed);
    if (i % 500 == 499) {
      const HttpAnswer answer = server.Predict(kOneRow);
      REQUIRE(answer.code == 200);
      REQUIRE(std::abs(PredictionsOf(answer.body).at(0) - wanted) <= 1e-6);
      largest = std::max(largest, resident());
    }
  }
  // Buffer and state of each; 32 bodies, which take up to twice their size while they grow.
  const double bound = static_cast<double>(std::min(most, connections) * (24 << 10)) +
                       2 * 32.0 * static_cast<double>(kMaxBody) + 64e6;
  CAPTURE(before, largest, bound);
  CHECK(largest - before <= bound);
  if (most < connections) {
    CHECK(server.Metric("simurgh_serve_evicted_connections_total") > 0);
  } else {
    CHECK(server.Metric("simurgh_serve_evicted_connections_total") == 0);
  }
  CHECK(server.Metric("simurgh_serve_connections") <= static_cast<double>(most));
  clients.clear();
  Await("the connections end", [&] { return server.Metric("simurgh_serve_connections") == 0; });
  CHECK(server.Predict(kOneRow).code == 200);
  CHECK(server.Stop() == 0);
}

TEST_CASE("A server without a model waits for one, and follows it") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  const auto train = [](const std::string& directory, int steps) {
    return RunStandalone({.config = "config/adult.yaml",
                          .overrides = {"checkpoint.directory=" + directory,
                                        absl::StrCat("training.max_steps=", steps)}})
        .exit_code;
  };
  std::filesystem::create_directory(model);
  ModelServer server(model);
  const auto problem = [&] { return server.Get("/v2/health/ready"); };
  Await("the reason", [&] { return absl::StrContains(problem().body, model); });
  CHECK(problem().code == 503);
  CHECK(server.Get("/v2/health/live").code == 200);
  const HttpAnswer refused = server.Predict(kOneRow);
  CHECK(refused.code == 503);
  CHECK_THAT(refused.head, Contains("\r\nRetry-After: "));
  CHECK_THAT(refused.body, Contains(model));
  REQUIRE(train(model, 60) == 0);
  server.AwaitReady();
  const HttpAnswer old = server.Predict(kOneRow);
  REQUIRE(old.code == 200);
  CHECK(VersionOf(old.body) == 60);

  // A newer version that is damaged.
  const std::string copy = folder.Path("copy");
  std::filesystem::copy(model, copy, std::filesystem::copy_options::recursive);
  REQUIRE(train(copy, 90) == 0);
  const std::string newer = ModelDirectory(copy).Open(90).value().folder;
  const std::string arrived =
      absl::StrCat(model, "/", std::filesystem::path(newer).filename().string());
  std::filesystem::copy(newer, arrived, std::filesystem::copy_options::recursive);
  const std::string weights = arrived + "/rows/age_id/0.safetensors";
  const std::string good = ReadText(weights);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  std::ofstream(weights) << bad;
  std::filesystem::copy(copy + "/latest", model + "/new");
  std::filesystem::rename(model + "/new", model + "/latest");
  const bool is_refused = server.process().WaitForLog("step 90 is not used: ", 60s);
  INFO(server.process().log());
  REQUIRE(is_refused);
  CHECK(server.Metric("simurgh_serve_versions_refused_total{reason=\"DATA_LOSS\"}") == 1);
  CHECK(problem().code == 200);
  CHECK(server.Predict(kOneRow).body == old.body);
  CHECK(server.Predict(kOneRow, 90).code == 404);

  // It is repaired.
  std::ofstream(weights) << good;
  server.process().Signal(SIGHUP);
  server.AwaitVersion(90);
  const HttpAnswer current = server.Predict(kOneRow);
  REQUIRE(current.code == 200);
  CHECK(VersionOf(current.body) == 90);
  CHECK(current.body != old.body);
  CHECK(server.Predict(kOneRow, 90).body == current.body);
  CHECK(server.Predict(kOneRow, 60).body == old.body);
  CHECK(server.Get("/v2/models/model/versions/60/ready").code == 200);
  const HttpAnswer unknown = server.Predict(kOneRow, 59);
  CHECK(unknown.code == 404);
  CHECK_THAT(unknown.body, Contains("use one of 90, 60") || Contains("use one of 60, 90"));
  CHECK(server.Get("/v2/models/other").code == 404);

  // The roll-back, and its end.
  std::ofstream(model + "/pin") << "60\n";
  server.AwaitVersion(60);
  CHECK(server.Predict(kOneRow).body == old.body);
  CHECK(server.Predict(kOneRow, 90).body == current.body);
  std::filesystem::remove(model + "/pin");
  server.AwaitVersion(90);
  CHECK(server.Predict(kOneRow).body == current.body);
  // Of step 90 once; step 60 was not newer than another one.
  CHECK(server.Metric("simurgh_serve_trained_to_served_seconds_count") == 1);
  CHECK(server.Stop() == 0);
}

}  // namespace
}  // namespace simurgh::testing
