// Daemons on several hosts: files that only some of them have, and addresses that differ from
// inside and outside.

#include <chrono>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/http_get.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Arguments of a daemon whose hosts all have `config`.
class Hosts {
 public:
  explicit Hosts(const std::vector<std::string>& overrides) : overrides_(overrides) {
    Set("embedding_ps.instances=[" + Instance("ps") + "]");
    Set("embedding_worker.instances=[" + Instance("worker") + "]");
    Set("nn_worker.instances=[" + Instance("nn") + "]");
    Set("training.max_steps=20");
  }

  std::unique_ptr<DaemonProcess> Start(const std::string& program, const std::string& config,
                                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"--config", config};
    for (const auto& list : {overrides_, more}) {
      for (const std::string& override : list) {
        arguments.insert(arguments.end(), {"--set", override});
      }
    }
    return std::make_unique<DaemonProcess>(program, arguments,
                                           folder_.Path(absl::StrCat(starts_++, ".log")));
  }

  const TemporaryFolder& folder() const { return folder_; }

 private:
  void Set(const std::string& override) { overrides_.push_back(override); }
  std::string Instance(const std::string& name) const {
    return absl::StrCat("{address: 'unix://", folder_.path(), "/", name,
                        "', metrics: '127.0.0.1:0'}");
  }

  const TemporaryFolder folder_;
  std::vector<std::string> overrides_;
  int starts_ = 0;
};

TEST_CASE("Servers and embedding workers start on hosts that have only the YAML") {
  // The other files are relative to the folder of the YAML.
  Hosts hosts({"features.0.vocabulary_file=words.txt", "features.0.oov_ids=5"});
  const TemporaryFolder bare;
  const std::string yaml = Read("config/adult-persia.yaml");
  const std::string config = bare.Write("adult.yaml", yaml);
  const auto server = hosts.Start("embedding-ps", config);
  const auto worker = hosts.Start("embedding-worker", config);
  CHECK(server->WaitForLog("listening at", 60s));
  CHECK(worker->WaitForLog("listening at", 60s));

  // The trainer needs them.
  const auto poor = hosts.Start("nn-worker", config);
  CHECK(poor->Wait(60s) == 2);
  CHECK_THAT(poor->log(), Catch::Contains("data.train.0: cannot read") &&
                              Catch::Contains("features.0.vocabulary_file: cannot read"));

  const TemporaryFolder full;
  const std::string words = full.Write("words.txt", "Private\nState-gov\nLocal-gov\n");
  const auto trainer =
      hosts.Start("nn-worker", "config/adult-persia.yaml", {"features.0.vocabulary_file=" + words});
  const TrainerOutcome outcome = Finish(*trainer);
  INFO(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK(!outcome.test_auc.empty());
}

TEST_CASE("A daemon listens at another address than the one that others call") {
  // Every 127.x.y.z is this machine, so a socket at 0.0.0.0 answers at all of them. Its ports are
  // of this process, below those that the system chooses.
  const std::string host = OwnHost();
  const int port = 10'000 + 2 * (::getpid() % 10'000);
  Hosts hosts({"rpc.security=insecure"});
  const std::string token =
      hosts.folder().Write("token", "a token of more than 32 bytes for one test cluster");
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  const std::vector<std::string> overrides{
      "cluster.token_file=" + token,
      absl::StrCat("embedding_ps.instances=[{address: \"", host, ":", port,
                   "\", listen: \"0.0.0.0:", port, "\", metrics: \"", host, ":", port + 1,
                   "\", metrics_listen: \"0.0.0.0:", port + 1, "\"}]")};
  const std::string config = "config/adult-persia.yaml";
  const auto server = hosts.Start("embedding-ps", config, overrides);
  const auto worker = hosts.Start("embedding-worker", config, overrides);
  CHECK(server->WaitForLog(absl::StrCat("listening at 0.0.0.0:", port), 60s));
  const auto trainer = hosts.Start("nn-worker", config, overrides);
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK_THAT(HttpGet(absl::StrCat(host, ":", port + 1), "/healthz"),
             Catch::StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace simurgh::testing
