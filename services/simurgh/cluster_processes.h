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

// Returns the host of a daemon's address. Empty: it has none, as on a Unix socket.
std::string HostOf(const ListedDaemon& daemon);

// Returns the signals that end a command, and SIGCHLD. A signal that the caller ignores stays
// ignored.
sigset_t HandledSignals();

// The daemons of one run, or its daemons on one host, as children of this process.
//
// An nn-worker and a loader may end before the others. When training has ended, or one daemon has
// ended otherwise, or after a signal, the rest is stopped: nn-workers and loaders first, since they
// use the others.
class ClusterProcesses {
 public:
  struct Arguments {
    std::vector<std::string> of_all;  // Arguments of every daemon, for its configuration.
    std::string resume = "auto";      // nn-worker --resume
    std::string update = {};          // nn-worker --update; empty: a training.
    // A program and its arguments, which plays all nn-workers; empty: nn-workers do.
    std::vector<std::string> program = {};
    bool standalone = false;  // One nn-worker does the work of all daemons.
  };

  // host: host of the daemons; empty: all hosts. Lifetime: `config` outlives the cluster.
  ClusterProcesses(const ClusterConfig& config, Arguments arguments, std::string logs,
                   const std::string& host = "");
  ~ClusterProcesses() { Kill(); }

  // Runs each program to check the configuration. The programs print the errors.
  StatusOr<ExitCode> Check() const;
  Status Start();
  // Lets training continue, too, as long as it does on another host. Errors: see TrainingWatch.
  Status WatchOthers();
  // Returns when no daemon runs.
  ExitCode Supervise();

  // Returns the file with the output of the first nn-worker. If that runs on another host, the file
  // does not exist.
  std::string result_path() const { return logs_ + "/nn-worker-0.out"; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Role { kEmbedding, kLoader, kTrainer };
  struct Program {
    std::string name;
    Role role;
    std::vector<size_t> indexes;  // Indexes of instances; not empty.
  };
  struct Child {
    Program program;
    size_t index;
    pid_t pid;
    std::optional<Clock::time_point> told_to_stop;  // A second signal would end a daemon at once.
    bool killed = false;                            // The daemon did not stop in time.

    // Returns the name of the log.
    std::string name() const { return absl::StrCat(program.name, "-", index); }
  };

  static std::vector<Program> ProgramsOf(const ClusterConfig& config, const std::string& host,
                                         const Arguments& arguments);
  std::vector<std::string> CommandLine(const std::string& program,
                                       const std::vector<std::string>& more) const;
  std::string LogOf(const std::string& name) const {
    return absl::StrCat(logs_, "/", name, ".log");
  }
  Status StartOne(const Program& program, size_t index);
  // Starts the program that plays the nn-workers.
  StatusOr<pid_t> StartProgram(const std::string& log) const;
  bool is_program(const Child& child) const {
    return child.program.role == Role::kTrainer && !arguments_.program.empty();
  }
  // Starts a daemon while others run. An error makes the command fail.
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
  // Returns whether nn-workers that stop need the daemon. An embedding worker can be started again.
  // A server that is started again reports to them that it has lost the rows.
  bool IsNeededToSave(const Child& child) const;
  struct End {
    ExitCode code;       // kStartAgain: a process was lost, so that it is no failure of the child.
    std::string reason;  // The failure of a program; may be empty.
  };
  End EndOf(const Child& child, int wait_status) const;
  // Returns whether the daemon is started again, and training continues.
  bool Recover(const Child& child, int wait_status, ExitCode code);
  void StartTrainersAgain();
  void Say(const std::string& text) {
    if (view_) view_->Erase();
    std::cerr << "simurgh: " << text << std::endl;
  }
  bool Runs(Role role) const;
  static bool IsFirstTrainer(const Child& child) {
    return child.program.role == Role::kTrainer && child.index == 0;
  }
  // Returns whether ranks need the daemons of this host, or may need them after a pause.
  bool IsNeeded() const { return Runs(Role::kTrainer) || start_again_ || goes_on_elsewhere_; }
  void LookElsewhere();
  void Tell(Role role);
  void StopWhatIsNotNeeded();
  void KillWhatDoesNotStop();
  void Kill();
  void Kill(Role role);

  const ClusterConfig& config_;
  const std::string folder_;  // Folder of the programs.
  const std::vector<Program> programs_;
  Arguments arguments_;
  const std::string logs_;
  std::vector<Child> children_;               // The running daemons.
  std::optional<LogView> view_;               // Shows the first nn-worker and this host's loaders.
  std::unique_ptr<TrainingWatch> watch_;      // Null if all daemons run on this host.
  bool goes_on_elsewhere_ = false;            // The watch reports that training continues.
  std::optional<std::string> shown_problem_;  // Last problem of the watch that was printed.
  std::vector<uint64_t> checkpoints_;         // Steps of the checkpoints at the last loss.
  std::map<std::string, int> losses_;         // Losses of each daemon since that checkpoint.
  // Latest time of the next start of nn-workers and loaders; nothing: they do not start again.
  std::optional<Clock::time_point> start_again_;
  Clock::time_point trainers_pause_;  // Earliest time of that start.
  // Other daemons that start again.
  struct Restart {
    Program program;
    size_t index;
    Clock::time_point at;
  };
  std::vector<Restart> restarts_;
  bool interrupted_ = false;
  std::optional<ExitCode> failure_;  // Result of the first daemon that failed.
};

}  // namespace simurgh
