#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {

// Empty for a file that cannot be read, as /proc's of a process that has just ended.
inline std::string ReadFile(const std::filesystem::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A command whose daemons listen on Unix sockets in a temporary folder.
class TrainCommand {
 public:
  // overrides: KEY=VALUE. logs: the value of --logs, in the folder; empty for a temporary folder.
  // more: other options.
  explicit TrainCommand(const std::vector<std::string>& overrides, size_t ranks = 1,
                        size_t loaders = 0, const std::string& logs = "logs",
                        const std::vector<std::string>& more = {},
                        const std::string& config = "config/adult-persia.yaml")
      : logs_(logs.empty() ? "" : folder_.Path(logs)) {
    words_ = {"train", config};
    if (!logs_.empty()) words_.insert(words_.end(), {"--logs", logs_});
    Set(absl::StrCat("embedding_ps.instances=[", Instance("ps-0"), ",", Instance("ps-1"), "]"));
    Set(absl::StrCat("embedding_worker.instances=[", Instance("worker"), "]"));
    Set("training.max_steps=20");
    std::string trainers;
    for (size_t rank = 0; rank < ranks; ++rank)
      trainers += Instance(absl::StrCat("nn-", rank)) + ",";
    Set("nn_worker.instances=[" + trainers + "]");
    std::string feeds;
    for (size_t loader = 0; loader < loaders; ++loader) feeds += "{},";
    Set("loaders.instances=[" + feeds + "]");
    for (const std::string& override : overrides) Set(override);
    words_.insert(words_.end(), more.begin(), more.end());
    command_ = std::make_unique<DaemonProcess>("simurgh", words_, folder_.Path("simurgh.log"));
  }

  DaemonProcess* operator->() { return command_.get(); }
  const std::vector<std::string>& words() const { return words_; }
  const std::string& logs() const { return logs_; }
  std::string LogOf(const std::string& name) const { return ReadFile(logs_ + "/" + name + ".log"); }

  // Requires: the nn-worker trains for long.
  void WaitForTraining() { REQUIRE(command_->WaitForLog("progress: step=", kTrainerDeadline)); }

  // Command lines of the processes that run, by pid: of the daemons and of the command itself.
  std::map<pid_t, std::string> Processes() const {
    std::map<pid_t, std::string> processes;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      pid_t pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      std::string line = ReadFile(entry.path() / "cmdline");
      std::replace(line.begin(), line.end(), '\0', ' ');
      if (Catch::Contains(folder_.path() + "/").match(line)) processes[pid] = line;
    }
    return processes;
  }

  // Waits until the daemon has been started.
  pid_t PidOf(const std::string& program, int index) const {
    const auto deadline = std::chrono::steady_clock::now() + kTrainerDeadline;
    while (std::chrono::steady_clock::now() < deadline) {
      for (const auto& [pid, line] : Processes()) {
        if (Catch::Contains("/" + program + " --config").match(line) &&
            Catch::EndsWith(absl::StrCat(" --index ", index, " ")).match(line)) {
          return pid;
        }
      }
    }
    FAIL(program << " does not run");
    return -1;
  }

 private:
  std::string Instance(const std::string& name) const {
    return absl::StrCat("{address: 'unix://", folder_.path(), "/", name, "'}");
  }
  void Set(const std::string& override) { words_.insert(words_.end(), {"--set", override}); }

  const TemporaryFolder folder_;
  const std::string logs_;
  std::vector<std::string> words_;
  std::unique_ptr<DaemonProcess> command_;
};

}  // namespace simurgh::testing
