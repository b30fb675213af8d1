// `simurgh train --host`: one cluster by several commands, on hosts that are names of this machine.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/cluster/train_command.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::Matches;

constexpr std::chrono::seconds kDeadline{120};

// Trains until a signal.
const std::vector<std::string> kLong{"training.max_steps=100000000", "training.epochs=1000000",
                                     "training.progress_interval=100ms"};

// A loopback address that no other process uses, like OwnHost().
std::string OtherHost() {
  const std::string own = OwnHost();
  const size_t dot = own.find('.', 4);
  return absl::StrCat("127.", std::stoi(own.substr(4, dot - 4)) + 64, own.substr(dot));
}

// A cluster of two hosts. `first` has the first nn-worker, `second` a server.
class TwoHosts {
 public:
  // overrides: KEY=VALUE. second_has_rank: a rank and a loader for it, too.
  explicit TwoHosts(const std::vector<std::string>& overrides, bool second_has_rank = false) {
    Set(absl::StrCat("embedding_ps.instances=[", At(first, 7401), ", ", At(second, 7401), "]"));
    Set(absl::StrCat("embedding_worker.instances=[", At(first, 7402), "]"));
    Set(absl::StrCat("nn_worker.instances=[", At(first, 7403),
                     second_has_rank ? ", " + At(second, 7403) : "", "]"));
    if (second_has_rank) {
      Set(absl::StrCat("loaders.instances=[{metrics: '", second, ":7404'}]"));
    }
    Set("training.max_steps=20");
    Set("training.reproducible=true");
    for (const std::string& override : overrides) Set(override);
  }

  std::vector<std::string> Words(const std::string& command, const std::string& host) const {
    std::vector<std::string> words{command, "config/adult-persia.yaml"};
    words.insert(words.end(), overrides_.begin(), overrides_.end());
    if (!host.empty()) words.insert(words.end(), {"--host", host});
    return words;
  }

  // host: empty for all daemons in one command.
  std::unique_ptr<DaemonProcess> Start(const std::string& host) {
    const std::string name = absl::StrCat("run-", runs_++);
    std::vector<std::string> words = Words("train", host);
    words.insert(words.end(), {"--logs", folder_.Path(name)});
    return std::make_unique<DaemonProcess>("simurgh", words, folder_.Path(name + ".log"));
  }

  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const std::string first = OwnHost();
  const std::string second = OtherHost();

 private:
  static std::string At(const std::string& host, int port) {
    return absl::StrCat("{address: '", host, ":", port, "'}");
  }
  void Set(const std::string& override) {
    overrides_.insert(overrides_.end(), {"--set", override});
  }

  const TemporaryFolder folder_;
  std::vector<std::string> overrides_;
  int runs_ = 0;
};

// The result without the throughput.
std::string ResultOf(const DaemonProcess& command) {
  const std::string output = command.output();
  return output.substr(0, output.find(" samples_per_sec="));
}

std::string DigestOf(const DaemonProcess& command) {
  const std::string log = command.log();
  const size_t at = log.find("network_digest=");
  return at == std::string::npos ? log : log.substr(at, 31);
}

TEST_CASE("Two hosts train to the end as one does") {
  TwoHosts hosts({}, /*second_has_rank=*/GENERATE(false, true));
  const auto alone = hosts.Start("");
  REQUIRE(alone->Wait(kDeadline) == 0);
  const bool first_starts_last = GENERATE(false, true);
  const auto before = hosts.Start(first_starts_last ? hosts.second : hosts.first);
  const auto after = hosts.Start(first_starts_last ? hosts.first : hosts.second);
  CHECK(before->Wait(kDeadline) == 0);
  CHECK(after->Wait(kDeadline) == 0);
  const DaemonProcess& first = first_starts_last ? *after : *before;
  const DaemonProcess& second = first_starts_last ? *before : *after;
  CAPTURE(first.log(), second.log());
  CHECK_THAT(ResultOf(first), Matches("test_auc=0\\.[0-9]{4} test_logloss=[0-9.]+"));
  CHECK(ResultOf(first) == ResultOf(*alone));
  CHECK(DigestOf(first) == DigestOf(*alone));
  CHECK(second.output().empty());
}

TEST_CASE("Without a folder for the model, the end of one host ends the other with an error") {
  TwoHosts hosts(
      {"training.retry_deadline=1s", "nn_worker.rank_timeout=2s", kLong[0], kLong[1], kLong[2]});
  const auto first = hosts.Start(hosts.first);
  const auto second = hosts.Start(hosts.second);
  REQUIRE(second->WaitForLog("simurgh: training continues", kDeadline));
  REQUIRE(first->WaitForLog("progress: step=", kDeadline));
  const bool kills_first = GENERATE(false, true);
  (kills_first ? *first : *second).Signal(SIGKILL);
  const DaemonProcess& rest = kills_first ? *second : *first;
  CHECK((kills_first ? *second : *first).Wait(kDeadline) == 3);
  CAPTURE(rest.log());
  if (kills_first) {
    CHECK_THAT(rest.log(), Contains("simurgh: training has failed: nn-worker/0 at " + hosts.first +
                                    ":7403 has not trained for 2000 ms"));
  } else {
    CHECK_THAT(rest.log(),
               Contains("nn-worker-0 ended with code 3") && Contains(hosts.second + ":7401"));
  }
}

TEST_CASE("With a folder for the model, training continues once a lost host is back") {
  const TemporaryFolder folder;
  const bool second_has_rank = GENERATE(false, true);
  const std::vector<std::string> overrides{"checkpoint.directory=" + folder.Path("model"),
                                           "checkpoint.every_steps=100",
                                           "training.max_steps=1500",
                                           "training.epochs=1000",
                                           "training.progress_interval=10ms",
                                           "training.retry_deadline=1s"};
  TwoHosts hosts(overrides, second_has_rank);
  const auto alone = hosts.Start("");
  REQUIRE(alone->Wait(kDeadline) == 0);
  std::filesystem::remove_all(folder.Path("model"));

  const auto first = hosts.Start(hosts.first);
  auto second = hosts.Start(hosts.second);
  REQUIRE(first->WaitForLog("saved the model: ", kDeadline));
  second->Signal(SIGKILL);
  REQUIRE(second->Wait(kDeadline) == 128 + SIGKILL);
  CHECK_FALSE(std::filesystem::exists(folder.Path("model/step-1500")));
  const bool starts_again = first->WaitForLog("starting nn-workers and loaders again", kDeadline);
  CAPTURE(first->log());
  REQUIRE(starts_again);
  second = hosts.Start(hosts.second);
  CHECK(first->Wait(kDeadline) == 0);
  CHECK(second->Wait(kDeadline) == 0);
  CAPTURE(first->log(), second->log());
  CHECK(ResultOf(*first) == ResultOf(*alone));
  CHECK(DigestOf(*first) == DigestOf(*alone));
}

TEST_CASE("With a folder for the model, a host that does not come back ends the other") {
  const TemporaryFolder folder;
  TwoHosts hosts({"checkpoint.directory=" + folder.Path("model"), "training.retry_deadline=1s",
                  "nn_worker.rank_timeout=3s", kLong[0], kLong[1], kLong[2]});
  const auto first = hosts.Start(hosts.first);
  const auto second = hosts.Start(hosts.second);
  REQUIRE(first->WaitForLog("progress: step=", kDeadline));
  second->Signal(SIGKILL);
  CHECK(first->Wait(kDeadline) == 3);
  CHECK_THAT(first->log(),
             Contains("simurgh: training has failed: nn-worker/0") &&
                 Contains("has not trained for 3000 ms (nn_worker.rank_timeout): waiting for ") &&
                 Contains("waiting for embedding-ps 1: cannot reach " + hosts.second));
}

TEST_CASE("A signal to any host stops training on all, and the model is saved") {
  const TemporaryFolder folder;
  TwoHosts hosts({"checkpoint.directory=" + folder.Path("model"), kLong[0], kLong[1], kLong[2]},
                 /*second_has_rank=*/GENERATE(false, true));
  const auto first = hosts.Start(hosts.first);
  const auto second = hosts.Start(hosts.second);
  REQUIRE(first->WaitForLog("progress: step=", kDeadline));
  const std::string signalled = GENERATE("first", "second", "both");
  CAPTURE(signalled);
  if (signalled != "first") second->Signal(SIGTERM);
  if (signalled != "second") first->Signal(SIGTERM);
  CHECK(first->Wait(kDeadline) == 0);
  CHECK(second->Wait(kDeadline) == 0);
  CAPTURE(first->log(), second->log());
  CHECK_THAT(first->log(),
             Contains("saved the model: ") && Contains("training was stopped: steps="));
  CHECK(!std::filesystem::is_empty(folder.Path("model")));
}

TEST_CASE("simurgh up --host runs a host in the background") {
  const TemporaryFolder folder;
  const TwoHosts hosts({"checkpoint.directory=" + folder.Path("model")});
  for (const std::string& host : {hosts.first, hosts.second}) {
    DaemonProcess up("simurgh", hosts.Words("up", host), folder.Path("up-" + host));
    CAPTURE(up.log());
    CHECK(up.Wait(kDeadline) == 0);
    CHECK(up.output() ==
          absl::StrCat("started; logs and state: ", folder.Path("model.run-"), host, "\n"));
  }
  for (const std::string& host : {hosts.first, hosts.second}) {
    std::vector<std::string> words = hosts.Words("logs", host);
    words.emplace_back("--follow");
    DaemonProcess logs("simurgh", words, folder.Path("logs-" + host));
    CHECK(logs.Wait(kDeadline) == 0);
    DaemonProcess down("simurgh", hosts.Words("down", host), folder.Path("down-" + host));
    CHECK(down.Wait(kDeadline) == 0);
    CHECK(down.output() == "no daemons run\n");
  }
  CHECK_THAT(ReadFile(folder.Path(absl::StrCat("model.run-", hosts.first, "/result"))),
             Contains("test_auc=0."));
}

TEST_CASE("--host needs a host of the configuration, and hosts in all addresses") {
  const TwoHosts hosts({});
  const TemporaryFolder folder;
  for (const char* command : {"train", "up", "logs", "down"}) {
    DaemonProcess unset("simurgh", {command, "config/adult.yaml", "--host", ""},
                        folder.Path("unset"));
    CHECK(unset.Wait(kDeadline) == 2);
    CHECK_THAT(unset.log(), Contains("--host: the name is empty"));
  }
  DaemonProcess other("simurgh", hosts.Words("train", "elsewhere"), folder.Path("log"));
  CHECK(other.Wait(kDeadline) == 2);
  CHECK_THAT(other.log(),
             Catch::StartsWith("simurgh: --host: no daemon is at 'elsewhere'; use one of: ") &&
                 Contains(hosts.first) && Contains(hosts.second));
  std::vector<std::string> words = hosts.Words("train", hosts.first);
  words.insert(words.end(), {"--set", "embedding_worker.instances.0.address=unix:///tmp/worker"});
  DaemonProcess without("simurgh", words, folder.Path("without"));
  CHECK(without.Wait(kDeadline) == 2);
  CHECK(without.log() ==
        "simurgh: --host: embedding-worker/0 has no host; give it `address`: host:port\n");
}

}  // namespace
}  // namespace simurgh::testing
