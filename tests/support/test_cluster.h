#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// A loopback address that only this process uses: every 127.x.y.z is this machine.
std::string OwnHost();

struct TestClusterOptions {
  std::string config = "config/adult-persia.yaml";
  size_t servers = 2;
  size_t workers = 1;
  size_t ranks = 1;
  size_t loaders = 0;                  // Above 0: the trainer reads no files, see StartLoader.
  std::vector<std::string> overrides;  // "key=value", for every daemon.
  bool digests = false;                // Servers log a digest of their rows when they stop.
  // OwnHost() for TCP in place of Unix sockets.
  std::string tcp_host = {};
  bool ranks_share = false;  // Trainers sum gradients in shared memory.
};

// Real daemons with a token, by default on Unix sockets in a temporary folder, so that clusters do
// not disturb one another. Metrics are served on ports that the system chooses.
//
// Threads: one owner.
class TestCluster {
 public:
  // Starts all servers and workers.
  explicit TestCluster(const TestClusterOptions& options);

  // The overrides of every daemon, with the addresses.
  std::vector<std::string> Overrides() const;

  DaemonProcess& server(size_t index) { return *servers_[index]; }
  DaemonProcess& worker(size_t index) { return *workers_[index]; }

  // Ends all servers; the digest of every table's rows, of all servers together.
  // Requires TestClusterOptions::digests.
  std::map<std::string, uint64_t> StopServersForDigests();

  // Starts a server or worker anew at its old address; the old process must have ended.
  void RestartServer(size_t index);
  void RestartWorker(size_t index);

  // Starts simurgh-feed for one of the loaders, with more overrides.
  std::unique_ptr<DaemonProcess> StartLoader(size_t index,
                                             const std::vector<std::string>& overrides = {});

  // Starts a trainer with more overrides and arguments.
  std::unique_ptr<DaemonProcess> StartTrainer(const std::vector<std::string>& overrides = {},
                                              size_t rank = 0,
                                              const std::vector<std::string>& more = {});
  // The command line of a further daemon, with more overrides.
  std::vector<std::string> Arguments(const std::vector<std::string>& overrides) const;

  // One of each of the first ranks.
  std::vector<std::unique_ptr<DaemonProcess>> StartTrainers(
      size_t ranks, const std::vector<std::string>& overrides = {});

 private:
  std::unique_ptr<DaemonProcess> Start(const std::string& program, size_t index);

  const TestClusterOptions options_;
  const TemporaryFolder folder_;
  int starts_ = 0;
  std::vector<std::unique_ptr<DaemonProcess>> servers_;
  std::vector<std::unique_ptr<DaemonProcess>> workers_;
};

// The numbers of a trainer's closing lines, as text, so that they compare to the last digit.
struct TrainerOutcome {
  int exit_code = -1;
  std::string test_auc;       // 17 digits.
  std::string test_log_loss;  // 17 digits.
  std::string network_digest;
  std::string last_line;  // The last line of stdout.
};

inline constexpr std::chrono::seconds kTrainerDeadline{120};

// Waits for the trainer's end and reads its log.
TrainerOutcome Finish(DaemonProcess& trainer, std::chrono::seconds deadline = kTrainerDeadline);

// The step of the trainer's last line of progress; 0 before the first.
uint64_t ProgressOf(const DaemonProcess& trainer);
// Waits for a line of progress of this step or a later one.
bool WaitForProgress(const DaemonProcess& trainer, uint64_t step,
                     std::chrono::seconds deadline = kTrainerDeadline);

// A whole run in one process.
TrainerOutcome RunStandalone(const TestClusterOptions& options,
                             std::chrono::seconds deadline = kTrainerDeadline);

}  // namespace simurgh::testing
