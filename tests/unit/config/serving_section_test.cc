#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/config/error_cases.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

ServingConfig Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryFolder folder;
  auto config = LoadServingConfig(folder.Write("serving.yaml", text), overrides);
  INFO(config.status());
  REQUIRE(config.ok());
  return *std::move(config);
}

// The error behind the file's path.
std::string Problem(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("serving.yaml", text);
  const auto config = LoadServingConfig(path, overrides);
  if (config.ok()) return "no error";
  CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
  const std::string message(config.status().message());
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

}  // namespace

TEST_CASE("serving needs no file", "[config]") {
  const auto config = LoadServingConfig("", {"serving.model='/m'"});
  REQUIRE(config.ok());
  CHECK(config->model == "/m");
  CHECK(config->listen == "127.0.0.1:8000");
  CHECK(config->max_body_bytes == 8 << 20);
  CHECK(config->queue_timeout == std::chrono::milliseconds(100));
  CHECK(config->version == "best");
  CHECK_FALSE(config->allow_plugins);
}

TEST_CASE("every key of serving is read", "[config]") {
  const ServingConfig config = Load(R"(serving:
  model: models/ads
  name: ads
  version: 120
  listen: "0.0.0.0:8443"
  metrics: "127.0.0.1:9100"
  threads: 3
  rows: remote
  row_precision: int8
  servers: ["host1:9100", "127.0.0.1:9101"]
  hot_row_bytes: 5000
  memory_budget: 1000
  max_batch_rows: 7
  batch_delay: 50us
  max_rows: 8
  max_body_bytes: 4096
  max_connections: 9
  request_timeout: 2s
  queue_timeout: 30ms
  bad_rows: empty
  max_age: 2m
  poll: 1s
  security: tls
  tls: {certificate: cert.pem, key: /key.pem, client_authority: ca.pem}
  token_file: tokens
  allow_plugins: true
)");
  using std::chrono::milliseconds;
  CHECK_THAT(config.model, Catch::StartsWith("/") && Catch::EndsWith("/models/ads"));
  CHECK(config.name == "ads");
  CHECK(config.version == "120");
  CHECK(config.listen == "0.0.0.0:8443");
  CHECK_THAT(config.listen_key, Catch::EndsWith("serving.yaml:5: serving.listen"));
  CHECK(config.metrics == "127.0.0.1:9100");
  CHECK(config.threads == 3);
  CHECK(config.rows == ServingConfig::Rows::kRemote);
  CHECK(config.row_precision == VectorPrecision::kInt8);
  CHECK(config.servers == std::vector<std::string>{"host1:9100", "127.0.0.1:9101"});
  CHECK_THAT(config.servers_key, Catch::EndsWith("serving.yaml:10: serving.servers"));
  CHECK(config.hot_row_bytes == 5000);
  CHECK(config.memory_budget == 1000);
  CHECK(config.max_batch_rows == 7);
  CHECK(config.batch_delay == std::chrono::microseconds(50));
  CHECK(config.max_rows == 8);
  CHECK(config.max_body_bytes == 4096);
  CHECK(config.max_connections == 9);
  CHECK(config.request_timeout == milliseconds(2000));
  CHECK(config.queue_timeout == milliseconds(30));
  CHECK(config.bad_rows == ServingConfig::BadRows::kEmpty);
  CHECK(config.max_age == milliseconds(120'000));
  CHECK(config.poll == milliseconds(1000));
  CHECK(config.security == Security::kTls);
  CHECK_THAT(config.tls.certificate, Catch::StartsWith("/") && Catch::EndsWith("/cert.pem"));
  CHECK(config.tls.key == "/key.pem");
  CHECK_THAT(config.tls.client_authority, Catch::EndsWith("/ca.pem"));
  CHECK_THAT(config.tls.where, Catch::EndsWith("serving.yaml:24: serving.tls"));
  CHECK_THAT(config.token_file, Catch::EndsWith("/tokens"));
  CHECK(config.allow_plugins);
}

TEST_CASE("the newest version is the default and has a name", "[config]") {
  CHECK(Load("serving: {}").version == "best");
  CHECK(Load("serving: {version: latest}").version == "latest");
  CHECK(Load("serving: {version: latest}", {"serving.version=7"}).version == "7");
}

TEST_CASE("servers of rows are a list or a text", "[config]") {
  const std::vector<std::string> two = {"127.0.0.1:9100", "127.0.0.1:9101"};
  CHECK(Load("", {"serving.servers=127.0.0.1:9100,127.0.0.1:9101"}).servers == two);
  CHECK(Load("", {"serving.servers=[127.0.0.1:9100, 127.0.0.1:9101]"}).servers == two);
  CHECK(Load("", {"serving.servers=[::1]:9100"}).servers == std::vector<std::string>{"[::1]:9100"});
  CHECK_THAT(Problem("serving: {servers: [host]}"), Catch::StartsWith(":1: serving.servers: "));
  CHECK(Problem("serving: {rows: remote}") ==
        ":1: serving.servers: is missing, which rows: remote needs; give the addresses of "
        "the row-servers");
}

TEST_CASE("servers of rows are reached by the cluster's rules of connections", "[config]") {
  const TemporaryFolder folder;
  folder.Write("token", "0123456789");
  const std::string text =
      "cluster: {name: ads, token_file: token, seed: 3}\n"
      "rpc: {security: insecure, stall_timeout: 7s}\n"
      "serving: {servers: [host:9100]}\n";
  const auto config = LoadServingConfig(folder.Write("serving.yaml", text), {});
  REQUIRE(config.ok());
  CHECK(config->rpc.security == Security::kInsecure);
  CHECK(config->rpc.token_file == folder.Path("token"));
  CHECK(config->rpc.stall_timeout == std::chrono::seconds(7));
  CHECK_THAT(Problem("rpc: {security: insecure}\nserving: {servers: [host:9100]}\n"),
             Catch::Contains("rpc.security: insecure requires a token"));
  CHECK_THAT(Problem("rpc: {secure: 1}\nserving: {servers: [host:9100]}\n"),
             Catch::Contains("rpc.secure"));
  // Without servers the files need not exist.
  CHECK(Load("cluster: {name: ads, token_file: /none}\n").rpc.token_file.empty());
}

TEST_CASE("a cluster's file serves, also where its data is not", "[config]") {
  const std::string cluster =
      Replaced(kSample, "train: [CMakeLists.txt]", "train: [/no/such/file]") +
      "serving: {threads: 5}\n";
  CHECK(Load(cluster).threads == 5);
}

TEST_CASE("training checks the section and ignores it", "[config]") {
  const std::string text = std::string(kSample) + "serving: {threads: 5, tls: {key: /none}}\n";
  CHECK(ErrorOf(text) ==
        "sample.yaml:54: serving.tls.key: has no effect; remove it, or set security: tls");
  const auto with =
      ParseClusterConfig(std::string(kSample) + "serving: {threads: 5}\n", kSamplePath, {});
  const auto without = ParseClusterConfig(kSample, kSamplePath, {});
  REQUIRE(with.ok());
  CHECK(ClusterAgreement(*with) == ClusterAgreement(*without));
  CHECK(TrainingAgreement(*with) == TrainingAgreement(*without));
  CHECK(ModelAgreement(*with) == ModelAgreement(*without));
}

TEST_CASE("errors of serving name key and remedy", "[config]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"servng: {}", ":1: servng: unknown key; the nearest known key is 'serving'"},
      {"serving: {thread: 1}",
       ":1: serving.thread: unknown key; the nearest known key is 'threads'"},
      {"serving: {version: newest}",
       ":1: serving.version: 'newest' is no version; expected: best, latest or a step"},
      {"serving: {version: -1}",
       ":1: serving.version: '-1' is no version; expected: best, latest or a step"},
      {"serving: {listen: 8000}", ":1: serving.listen: '8000' has no port; expected: host:port"},
      {"serving: {max_rows: 0}", ":1: serving.max_rows: 0 is out of range; use 1 to 65535"},
      {"serving: {rows: disk}",
       ":1: serving.rows: 'disk' is unknown; expected: one of memory, mapped, remote"},
      {"serving: {row_precision: f16}",
       ":1: serving.row_precision: 'f16' is unknown; expected: one of f32, bf16, int8"},
      {"serving: {rows: mapped, row_precision: int8}",
       ":1: serving.row_precision: mapped rows have the precision of their files; use f32, or "
       "rows: memory"},
      {"serving: {queue_timeout: 0s}",
       ":1: serving.queue_timeout: 0s is out of range; use 1ms to 60m"},
      {"serving: {model: ~/m}",
       ":1: serving.model: '~/m' begins with ~, which is not expanded; "
       "write out the path of the home folder"},
      {"serving: {security: tls, tls: {key: k}}",
       ":1: serving.tls.certificate: missing; expected: path of a PEM file"},
      {"serving: {listen: \"0.0.0.0:80\"}",
       ":1: serving.listen: '0.0.0.0:80' is reachable from other machines, but serving.security "
       "is loopback; use a loopback address, serving.security: tls, or insecure in a network that "
       "you trust"},
  };
  for (const auto& [text, error] : cases) {
    INFO(text);
    CHECK(Problem(text) == error);
  }
  CHECK(Problem("", {"serving.threads=x"}) ==
        "--set serving.threads=x: serving.threads: 'x' is not an integer; expected: integer from 0 "
        "to 256");
  CHECK(LoadServingConfig("/none", {}).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace simurgh
