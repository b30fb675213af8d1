// Real daemons over TLS.

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "rpc/testing/certificates.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using rpc::testing::TestAuthority;
using std::chrono_literals::operator""s;

std::vector<std::string> TlsOverrides(const rpc::TlsOptions& files) {
  return {"rpc.security=tls", "rpc.tls.certificate=" + files.certificate_file,
          "rpc.tls.key=" + files.key_file, "rpc.tls.authority=" + files.authority_file,
          "rpc.tls.peer_name=test.cluster"};
}

TEST_CASE("Over TLS a run is the same to the last bit, and strangers stay out") {
  TestAuthority authority, stranger;
  const rpc::TlsOptions files =
      authority.Issue("daemons", {.alternative_names = "DNS:test.cluster"});
  TestClusterOptions options{.overrides = TlsOverrides(files), .tcp_host = OwnHost()};
  options.overrides.emplace_back("training.reproducible=true");
  options.overrides.emplace_back("training.max_steps=50");
  TestCluster cluster(options);
  const auto trainer = cluster.StartTrainer();
  const TrainerOutcome over_tls = Finish(*trainer);
  REQUIRE(over_tls.exit_code == 0);
  REQUIRE_FALSE(over_tls.network_digest.empty());
  CHECK(over_tls.network_digest == RunStandalone(options).network_digest);

  const std::vector<std::string> unknown =
      TlsOverrides(stranger.Issue("stranger", {.alternative_names = "DNS:test.cluster"}));
  const auto untrusted = cluster.StartTrainer(unknown);
  CHECK(untrusted->Wait(60s) == 3);
  CHECK_THAT(untrusted->log(), Catch::Contains("certificate is not trusted"));
  const auto plain = cluster.StartTrainer({"rpc={security: loopback}"});
  CHECK(plain->Wait(60s) == 3);
  CHECK_THAT(plain->log(), Catch::Contains("TLS: the server requires it"));
}

TEST_CASE("A trainer without the cluster's token is refused, and learns nothing of the cluster") {
  TestCluster cluster({.tcp_host = OwnHost()});
  const TemporaryFolder folder;
  const std::string other = folder.path() + "/token";
  std::ofstream(other) << "another token of more than 32 bytes for one test";
  std::filesystem::permissions(other, std::filesystem::perms(0600));
  for (const std::string& identity :
       {std::string("cluster={name: other}"), "cluster.token_file=" + other}) {
    const auto trainer = cluster.StartTrainer({identity, "tables.0.dim=3"});
    CHECK(trainer->Wait(60s) == 3);
    CHECK_THAT(trainer->log(), Catch::Contains("cluster.token_file: the server has a") &&
                                   !Catch::Contains("configurations differ"));
  }
  const auto trainer = cluster.StartTrainer({"training.max_steps=5"});
  CHECK(trainer->Wait(60s) == 0);
}

}  // namespace
}  // namespace simurgh::testing
