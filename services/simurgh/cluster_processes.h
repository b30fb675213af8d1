#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "absl/strings/str_cat.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/run_processes.h"
#include "services/simurgh/training_watch.h"

namespace simurgh {

// The host of a daemon's address. Empty: it has none, as on a Unix socket.
std::string HostOf(const ListedDaemon& daemon);

// The signals that end a command, and SIGCHLD. A signal that the caller ignores stays ignored.
sigset_t HandledSignals();

// The daemons of one run, or those of it on one host, children of this process.
//
// An nn-worker and a loader may end before the others. When training has ended, or one daemon has
// ended otherwise, or a signal has come, the rest is stopped: nn-workers and loaders first, since
// they use the others.
class ClusterProcesses {
 public:
  struct Arguments {
    std::vector<std::string> of_all;  // Of every daemon, for its configuration.
    std::string resume = "auto";      // nn-worker --resume
    std::string update = {};          // nn-worker --update; empty: a training.
  };

  // host: of the daemons; empty: all. Lifetime: `config` outlives the cluster.
  ClusterProcesses(const ClusterConfig& config, Arguments arguments, std::string logs,
                   const std::string& host = "");
  ~ClusterProcesses() { Kill(); }

  // Lets each program check the configuration. It prints what is wrong.
  StatusOr<ExitCode> Check() const;
  Status Start();
  // Training also goes on as long as the watch says so. Errors: of TrainingWatch.
  Status WatchOthers();
  // Returns when no daemon runs.
  ExitCode Supervise();

  // What the first nn-worker printed; no file on another host.
  std::string result_path() const { return logs_ + "/nn-worker-0.out"; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Role { kEmbedding, kLoader, kTrainer };
  struct Program {
    std::string name;
    Role role;
    std::vector<size_t> indexes;  // Of instances; not empty.
  };
  struct Child {
    Program program;
    size_t index;
    pid_t pid;
    std::optional<Clock::time_point> told_to_stop;  // A second signal would end a daemon at once.
    bool killed = false;                            // It did not stop.

    std::string name() const { return absl::StrCat(program.name, "-", index); }  // Of the log.
  };

  static std::vector<Program> ProgramsOf(const ClusterConfig& config, const std::string& host);
  std::vector<std::string> CommandLine(const std::string& program,
                                       const std::vector<std::string>& more) const;
  std::string LogOf(const std::string& name) const {
    return absl::StrCat(logs_, "/", name, ".log");
  }
  Status StartOne(const Program& program, size_t index);
  // The same while others run. An error is a failure.
  void StartAgain(const Program& program, size_t index) {
    const Status started = StartOne(program, index);
    if (started.ok()) return;
    Say(std::string(started.message()));
    failure_ = ExitCode::kRuntimeFailure;
  }
  // Starts the daemons whose pause is over.
  void StartDue();
  void WriteState() const;
  void Reap();
  void OnEnd(const Child& child, int wait_status);
  // Whether nn-workers that stop need the daemon. An embedding worker can be started again. A
  // server that is started again tells them that it has lost the rows.
  bool IsNeededToSave(const Child& child) const;
  // Whether the daemon is started again, and training continues.
  bool Recover(const Child& child, int wait_status);
  void StartTrainersAgain();
  void Say(const std::string& text) {
    if (view_) view_->Erase();
    std::cerr << "simurgh: " << text << std::endl;
  }
  bool Runs(Role role) const;
  static bool IsFirstTrainer(const Child& child) {
    return child.program.role == Role::kTrainer && child.index == 0;
  }
  // Whether ranks need the daemons of this host, or may after a pause.
  bool IsNeeded() const { return Runs(Role::kTrainer) || start_again_ || goes_on_elsewhere_; }
  void LookElsewhere();
  void Tell(Role role);
  void StopWhatIsNotNeeded();
  void KillWhatDoesNotStop();
  void Kill();
  void Kill(Role role);

  const ClusterConfig& config_;
  const std::string folder_;  // Of the programs.
  const std::vector<Program> programs_;
  Arguments arguments_;
  const std::string logs_;
  std::vector<Child> children_;                   // Those that run.
  std::optional<LogView> view_;                   // Of the first nn-worker and the loaders here.
  std::unique_ptr<TrainingWatch> watch_;          // Null if all daemons run here.
  bool goes_on_elsewhere_ = false;                // Training, as the watch says.
  std::optional<std::string> shown_problem_;      // Of the watch.
  std::vector<uint64_t> checkpoints_;             // Steps, at the last loss.
  std::map<std::string, int> losses_;             // Of daemons, since that checkpoint.
  std::optional<Clock::time_point> start_again_;  // Nn-workers and loaders, at the latest.
  Clock::time_point trainers_pause_;              // Until they may start again.
  // Others that start again.
  struct Restart {
    Program program;
    size_t index;
    Clock::time_point at;
  };
  std::vector<Restart> restarts_;
  bool interrupted_ = false;
  std::optional<ExitCode> failure_;  // Of the first daemon that failed.
};

}  // namespace simurgh
