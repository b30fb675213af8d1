// The security keys of the configuration.

#include <filesystem>

#include <catch2/catch.hpp>

#include "rpc/tls.h"
#include "services/runtime/listener.h"
#include "services/runtime/rpc_setup.h"
#include "tests/support/rpc/certificates.h"

namespace simurgh {
namespace {

using rpc::testing::CertificateOptions;
using rpc::testing::TestAuthority;

RpcConfig WithTls(const rpc::TlsOptions& files) {
  RpcConfig config;
  config.security = Security::kTls;
  config.tls = {.certificate = files.certificate_file,
                .key = files.key_file,
                .authority = files.authority_file,
                .peer_name = "ps",
                .where = "cluster.yaml:7: rpc.tls"};
  return config;
}

Status ListenAt(const std::string& address, const RpcConfig& rpc) {
  ClusterConfig config;
  config.rpc = rpc;
  auto options = MakeRpcOptions(rpc);
  REQUIRE(options.status() == absl::OkStatus());
  const InstanceConfig instance{.address = address, .listen_key = "cluster.yaml:3: the.address"};
  DaemonContext context("role", config, *std::move(options), instance, 0);
  Listener listener(context);
  return listener.Listen(context, [](rpc::Server&) {});
}

TEST_CASE("keys of the section rpc become options of clients and servers", "[tls]") {
  TestAuthority authority;
  RpcConfig config = WithTls(authority.Issue("all"));
  config.tls.allowed_names = {{"loader", {"a.b"}}};
  config.connect_timeout = std::chrono::milliseconds(77);
  config.max_frame_bytes = 88'888;
  config.max_connections = 9;
  config.max_connections_per_host = 8;
  config.peer_memory_bytes = 99'999;
  config.stall_timeout = std::chrono::milliseconds(55);
  const auto options = MakeRpcOptions(config);
  REQUIRE(options.status() == absl::OkStatus());
  CHECK(options->client.connect_timeout == config.connect_timeout);
  CHECK(options->client.max_frame_bytes == config.max_frame_bytes);
  CHECK(options->server.max_frame_bytes == config.max_frame_bytes);
  CHECK(options->server.max_connections == 9);
  CHECK(options->server.max_connections_per_host == 8);
  CHECK(options->server.max_request_bytes_per_connection == 99'999);
  CHECK(options->server.max_answer_bytes_per_connection == 99'999);
  CHECK(options->server.stall_timeout == config.stall_timeout);
  CHECK(options->client.stall_timeout == config.stall_timeout);
  REQUIRE(options->client.tls != nullptr);
  CHECK(options->client.tls == options->server.tls);
  CHECK(options->client.tls->peer_name() == "ps");
  CHECK_FALSE(options->client.tls->CheckRole("loader", std::vector<std::string>{"c"}).ok());
  CHECK_FALSE(options->server.insecure);
  CHECK(options->client.token == nullptr);

  config.security = Security::kInsecure;
  CHECK(MakeRpcOptions(config)->server.insecure);
  CHECK(MakeRpcOptions(config)->client.tls == nullptr);
}

TEST_CASE("the token's file becomes the token of clients and servers") {
  TestAuthority folder;
  RpcConfig config{.token_file = folder.Write("token", "0123456789abcdef0123456789abcdef"),
                   .token_key = "cluster.yaml:2: cluster.token_file"};
  std::filesystem::permissions(config.token_file, std::filesystem::perms(0600));
  const auto options = MakeRpcOptions(config);
  REQUIRE(options.status() == absl::OkStatus());
  CHECK(options->client.token != nullptr);
  CHECK(options->client.token == options->server.token);
  std::filesystem::permissions(config.token_file, std::filesystem::perms(0644));
  const Status refused = MakeRpcOptions(config).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::StartsWith("cluster.yaml:2: cluster.token_file: '" + config.token_file +
                               "' can be accessed by other users; create it with: head -c 32"));
}

TEST_CASE("a client accepts only the instance that it dialled") {
  const std::vector<InstanceConfig> servers{
      {.address = "host-a:1", .address_key = "cluster.yaml:3: embedding_ps.instances.0.address"},
      {.address = "host-b:2", .address_key = "cluster.yaml:4: embedding_ps.instances.1.address"}};
  const auto check = OptionsFor({}, "embedding-ps", servers, 1).check_server;
  CHECK(check({.role = "embedding-ps", .index = 1}) == absl::OkStatus());
  const auto message = [&](const rpc::Hello& server) {
    const Status status = check(server);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  const std::string where = "cluster.yaml:4: embedding_ps.instances.1.address: host-b:2 is ";
  CHECK_THAT(
      message({.role = "embedding-ps", .index = 0}),
      Catch::StartsWith(where + "embedding-ps 0, which the configuration has at host-a:1; use "));
  CHECK_THAT(
      message({.role = "embedding-ps", .index = 2}),
      Catch::StartsWith(where + "embedding-ps 2, which the configuration does not have; use "));
  CHECK_THAT(message({.role = "embedding-worker", .index = 1}),
             Catch::StartsWith(where + "embedding-worker, expected embedding-ps; use the "));
}

TEST_CASE("an unusable file is named with its key", "[tls]") {
  TestAuthority authority;
  const auto message = [](const rpc::TlsOptions& files) {
    const Status status = MakeRpcOptions(WithTls(files)).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  rpc::TlsOptions files =
      authority.Issue("old", {.begins = std::chrono::hours(-9), .ends = std::chrono::hours(-3)});
  CHECK_THAT(message(files), Catch::StartsWith("cluster.yaml:7: rpc.tls.certificate: '" +
                                               files.certificate_file + "' expired") &&
                                 Catch::EndsWith("; issue a new one"));
  files = authority.Issue("good");
  files.key_file = authority.Issue("other").key_file;
  CHECK_THAT(message(files), Catch::StartsWith("cluster.yaml:7: rpc.tls.key: '" + files.key_file));
}

TEST_CASE("a daemon listens on external addresses only if the configuration permits") {
  TestAuthority authority;
  for (const char* address : {"0.0.0.0:0", "[::]:0", "auto://0.0.0.0:0"}) {
    INFO(address);
    const Status refused = ListenAt(address, {});
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(std::string(refused.message()),
               Catch::StartsWith("cluster.yaml:3: the.address: " + std::string(address)) &&
                   Catch::Contains("set rpc.security: tls"));
    RpcConfig insecure;
    insecure.security = Security::kInsecure;
    CHECK(ListenAt(address, insecure) == absl::OkStatus());
    CHECK(ListenAt(address, WithTls(authority.Issue("server"))) == absl::OkStatus());
  }
  CHECK(ListenAt("127.0.0.1:0", {}) == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh
