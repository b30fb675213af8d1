// Real daemons over TLS.

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/support/rpc/certificates.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using rpc::testing::CertificateOptions;
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

// Starts rank 0 of two, a rank 1 with `overrides` that is not trusted, then the right rank 1.
// Returns the outcomes of both ranks, and the stranger's log.
std::pair<std::vector<TrainerOutcome>, std::string> TrainDespiteStranger(
    TestCluster& cluster, const std::vector<std::string>& overrides) {
  const auto first = cluster.StartTrainer({}, 0);
  const auto stranger = cluster.StartTrainer(overrides, 1);
  CHECK(stranger->Wait(60s) == 3);
  const auto second = cluster.StartTrainer({}, 1);
  std::vector<TrainerOutcome> outcomes{Finish(*first), Finish(*second)};
  INFO(first->log());
  CHECK(outcomes[0].exit_code == 0);
  CHECK(outcomes[1].exit_code == 0);
  return {outcomes, stranger->log()};
}

TEST_CASE("Two ranks over TLS train as without, and a rank without a certificate stays out") {
  TestAuthority authority, stranger;
  const CertificateOptions names{.alternative_names = "DNS:test.cluster"};
  TestClusterOptions options{.ranks = 2,
                             .overrides = {"training.mode=sync", "training.max_steps=50"},
                             .tcp_host = OwnHost()};
  TestClusterOptions over_tls = options;
  for (const std::string& key : TlsOverrides(authority.Issue("daemons", names))) {
    over_tls.overrides.push_back(key);
  }
  std::string digest;
  {
    TestCluster cluster(over_tls);
    const auto [outcomes, log] =
        TrainDespiteStranger(cluster, TlsOverrides(stranger.Issue("stranger", names)));
    CHECK_THAT(log, Catch::Contains("certificate is not trusted"));
    digest = outcomes[0].network_digest;
    CHECK_FALSE(digest.empty());
    CHECK(outcomes[1].network_digest == digest);
  }
  TestCluster cluster(options);
  const auto trainers = cluster.StartTrainers(2);
  for (const auto& trainer : trainers) CHECK(Finish(*trainer).network_digest == digest);
}

TEST_CASE("A rank without the cluster's token is refused and does not disturb the run") {
  TestCluster cluster({.ranks = 2, .overrides = {"training.max_steps=50"}, .tcp_host = OwnHost()});
  const TemporaryFolder folder;
  const std::string other =
      folder.Write("token", "another token of more than 32 bytes for one test");
  std::filesystem::permissions(other, std::filesystem::perms(0600));
  const auto log = TrainDespiteStranger(cluster, {"cluster.token_file=" + other}).second;
  CHECK_THAT(log, Catch::Contains("cluster.token_file: the server has a"));
}

}  // namespace
}  // namespace simurgh::testing
