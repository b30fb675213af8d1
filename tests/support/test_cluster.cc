#include "tests/support/test_cluster.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include <signal.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

constexpr int kServerPort = 7401;
constexpr int kWorkerPort = 7411;
constexpr int kTrainerPort = 7421;

// "[{address: "unix://<folder>/<name>-0.sock", metrics: "127.0.0.1:0"}, ...]", or with TCP ports
// from `first_port`.
std::string InstanceList(const TestClusterOptions& options, const std::string& folder,
                         const std::string& name, int first_port, size_t count,
                         const std::string& scheme = "unix") {
  std::string list;
  for (size_t i = 0; i < count; ++i) {
    const std::string address =
        options.tcp_host.empty()
            ? scheme + "://" + folder + "/" + name + "-" + std::to_string(i) + ".sock"
            : options.tcp_host + ":" + std::to_string(first_port + static_cast<int>(i));
    list += (i == 0 ? "" : ", ");
    list += "{address: \"" + address + "\", metrics: \"127.0.0.1:0\"}";
  }
  return "[" + list + "]";
}

std::string FirstGroup(const std::string& text, const std::string& pattern) {
  // The last match counts: the final evaluation.
  std::string found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found = (*match)[1];
  }
  return found;
}

std::vector<std::string> AsArguments(const std::string& config,
                                     const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments{"--config", config};
  for (const std::string& override : overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(override);
  }
  return arguments;
}

// Creates the file at the first call.
std::string TokenFile(const std::string& folder) {
  std::string path = folder + "/token";
  if (!std::filesystem::exists(path)) {
    std::ofstream(path) << "a token of more than 32 bytes for one test cluster";
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  }
  return path;
}

std::vector<std::string> WithInstances(const TestClusterOptions& options,
                                       const std::string& folder) {
  std::vector<std::string> overrides = options.overrides;
  overrides.push_back("cluster.token_file=" + TokenFile(folder));
  overrides.push_back("embedding_ps.instances=" +
                      InstanceList(options, folder, "ps", kServerPort, options.servers));
  overrides.push_back("embedding_worker.instances=" +
                      InstanceList(options, folder, "worker", kWorkerPort, options.workers));
  std::string trainer = "metrics: \"127.0.0.1:0\"";
  if (options.loaders > 0) {
    trainer += ", address: \"unix://" + folder + "/nn.sock\"";
    std::string loaders;
    for (size_t i = 0; i < options.loaders; ++i) loaders += "{metrics: \"127.0.0.1:0\"},";
    overrides.push_back("loaders.instances=[" + loaders + "]");
  }
  if (options.ranks == 1) {
    overrides.push_back("nn_worker.instances=[{" + trainer + "}]");
  } else {
    overrides.push_back("nn_worker.instances=" +
                        InstanceList(options, folder, "nn", kTrainerPort, options.ranks,
                                     options.ranks_share ? "shm" : "unix"));
  }
  return overrides;
}

}  // namespace

std::string OwnHost() {
  const auto id = static_cast<unsigned>(::getpid());
  return "127." + std::to_string(64 + (id >> 16) % 64) + "." + std::to_string((id >> 8) % 256) +
         "." + std::to_string(id % 256);
}

std::vector<std::string> TestCluster::Overrides() const {
  return WithInstances(options_, folder_.path());
}

TestCluster::TestCluster(const TestClusterOptions& options) : options_(options) {
  for (size_t i = 0; i < options_.servers; ++i) servers_.push_back(Start("embedding-ps", i));
  for (size_t i = 0; i < options_.workers; ++i) workers_.push_back(Start("embedding-worker", i));
}

std::vector<std::string> TestCluster::Arguments(const std::vector<std::string>& overrides) const {
  std::vector<std::string> all = Overrides();
  all.insert(all.end(), overrides.begin(), overrides.end());
  return AsArguments(options_.config, all);
}

std::unique_ptr<DaemonProcess> TestCluster::Start(const std::string& program, size_t index) {
  std::vector<std::string> arguments = Arguments({});
  arguments.emplace_back("--index");
  arguments.push_back(std::to_string(index));
  if (options_.digests && program == "embedding-ps") arguments.emplace_back("--digests");
  return std::make_unique<DaemonProcess>(
      program, arguments,
      folder_.path() + "/" + program + "-" + std::to_string(starts_++) + ".log");
}

std::map<std::string, uint64_t> TestCluster::StopServersForDigests() {
  SIMURGH_CHECK(options_.digests);
  std::map<std::string, uint64_t> digests;
  for (const auto& server : servers_) server->Signal(SIGTERM);
  for (const auto& server : servers_) {
    SIMURGH_CHECK_EQ(server->Wait(std::chrono::seconds(30)).value_or(-1), 0);
    const std::string log = server->log();
    const std::regex line("rows of table (\\S+): digest ([0-9a-f]{16})");
    for (std::sregex_iterator match(log.begin(), log.end(), line), end; match != end; ++match) {
      digests[(*match)[1]] += std::stoull((*match)[2], nullptr, 16);
    }
  }
  return digests;
}

void TestCluster::RestartServer(size_t index) { servers_[index] = Start("embedding-ps", index); }

void TestCluster::RestartWorker(size_t index) {
  workers_[index] = Start("embedding-worker", index);
}

std::unique_ptr<DaemonProcess> TestCluster::StartLoader(size_t index,
                                                        const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments = Arguments(overrides);
  arguments.emplace_back("--index");
  arguments.push_back(std::to_string(index));
  return std::make_unique<DaemonProcess>(
      "simurgh-feed", arguments, folder_.path() + "/loader-" + std::to_string(starts_++) + ".log");
}

std::unique_ptr<DaemonProcess> TestCluster::StartTrainer(const std::vector<std::string>& overrides,
                                                         size_t rank,
                                                         const std::vector<std::string>& more) {
  std::vector<std::string> arguments = Arguments(overrides);
  arguments.emplace_back("--index");
  arguments.push_back(std::to_string(rank));
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<DaemonProcess>(
      "nn-worker", arguments, folder_.path() + "/nn-worker-" + std::to_string(starts_++) + ".log");
}

std::vector<std::unique_ptr<DaemonProcess>> TestCluster::StartTrainers(
    size_t ranks, const std::vector<std::string>& overrides) {
  std::vector<std::unique_ptr<DaemonProcess>> trainers;
  for (size_t rank = 0; rank < ranks; ++rank) trainers.push_back(StartTrainer(overrides, rank));
  return trainers;
}

TrainerOutcome Finish(DaemonProcess& trainer, std::chrono::seconds deadline) {
  TrainerOutcome outcome;
  outcome.exit_code = trainer.Wait(deadline).value_or(-1);
  const std::string log = trainer.log();
  outcome.test_auc = FirstGroup(log, "evaluated: step=\\d+ samples=\\d+ auc=([^ ]+) ");
  outcome.test_log_loss = FirstGroup(log, "evaluated: .*log_loss=([-+.e0-9]+)");
  outcome.network_digest = FirstGroup(log, "network_digest=([0-9a-f]{16})");
  outcome.last_line = FirstGroup(trainer.output(), "([^\n]+)\n?");
  return outcome;
}

uint64_t ProgressOf(const DaemonProcess& trainer) {
  const std::string step = FirstGroup(trainer.log(), "progress: step=(\\d+) ");
  return step.empty() ? 0 : std::stoull(step);
}

bool WaitForProgress(const DaemonProcess& trainer, uint64_t step, std::chrono::seconds deadline) {
  return testing::Eventually([&] { return ProgressOf(trainer) >= step; }, deadline);
}

TrainerOutcome RunStandalone(const TestClusterOptions& options, std::chrono::seconds deadline) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments =
      AsArguments(options.config, WithInstances(options, folder.path()));
  arguments.emplace_back("--standalone");
  DaemonProcess trainer("nn-worker", arguments, folder.path() + "/nn-worker.log");
  return Finish(trainer, deadline);
}

}  // namespace simurgh::testing
