#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "rpc/address.h"
#include "services/runtime/command_line.h"
#include "services/runtime/daemon.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/run_processes.h"
#include "services/simurgh/training_watch.h"
#include "simurgh/base/file_descriptor.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "Starts every daemon that CONFIG lists: embedding-ps, embedding-worker, loaders and "
    "nn-worker.\n"
    "The programs are in the folder of simurgh. The daemons share a new token, so that other "
    "users\n"
    "of the machine cannot use them. Shows the log of the first nn-worker on stderr; on a "
    "terminal\n"
    "its last line is the progress. The last line on stdout is the result. No daemon outlives "
    "this\n"
    "command, even after SIGKILL.\n\n"
    "SIGINT, SIGTERM or SIGHUP stops training: first the nn-workers, then the other daemons. A\n"
    "second signal kills all of them. If a daemon fails, the others are stopped. The ends of the\n"
    "logs of all that failed are printed.\n\n"
    "With checkpoint.directory, a daemon that is killed is started again, up to three times "
    "without\n"
    "a new checkpoint: at once, then after 1 s and 2 s. Training then continues from the last\n"
    "checkpoint.\n\n"
    "With --refit, two trainings follow each other. The first, in the folder checkpoint.directory "
    "with\n"
    "the ending -trial, finds the best number of epochs by data.validation. The second trains on\n"
    "data.train and data.validation together for that number. Its model is the result. An\n"
    "interrupted command continues either. It needs training.early_stopping and\n"
    "training.evaluate_every_epochs.\n\n"
    "With --host, only the daemons run whose `address` has this host; for loaders, which have no\n"
    "address, the host of `metrics` counts. Run the command on every host with its own name, in "
    "any\n"
    "order, with the same CONFIG, --set and --resume. They share cluster.token_file. Each ends "
    "when\n"
    "the training ends; a signal to one stops the training. The result is on stdout where the "
    "first\n"
    "nn-worker runs. If a host is lost, the others fail. With checkpoint.directory they first "
    "wait\n"
    "for nn_worker.rank_timeout, and training continues if the host is back by then.\n\n"
    "Examples:\n"
    "  simurgh train config/adult.yaml\n"
    "  simurgh train clicks.yaml --set training.epochs=3 --set checkpoint.directory=model\n"
    "  simurgh train clicks.yaml --logs logs > result\n"
    "  simurgh train clicks.yaml --host ps-0.example.org\n\n"
    "Exit codes:\n"
    "  0    trained, or stopped by one signal\n"
    "  2    bad arguments or configuration\n"
    "  3    a daemon or another host failed; the log has the reason\n"
    "  130  a second signal killed the daemons\n";

// The folder of the logs, which may have the token of the run.
class RunFolder {
 public:
  // given: of --logs; empty for a temporary folder.
  static StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& given);
  Status WriteToken() const;

  // Removes the token, and a new folder if it is empty.
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove(token(), ignored);
    if (is_new_) std::filesystem::remove(path_, ignored);
  }

  // After a success: a temporary folder is no longer needed.
  void Discard() {
    std::error_code ignored;
    if (is_temporary_) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string token() const { return path_ + "/token"; }

 private:
  RunFolder(std::string path, FileDescriptor lock, bool is_new, bool is_temporary)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        is_new_(is_new),
        is_temporary_(is_temporary) {}

  // Two runs would overwrite each other's files. Errors: INVALID_ARGUMENT.
  static StatusOr<FileDescriptor> Lock(const std::string& path);

  const std::string path_;  // Absolute.
  const FileDescriptor lock_;
  const bool is_new_;
  const bool is_temporary_;
};

StatusOr<std::unique_ptr<RunFolder>> RunFolder::Create(const std::string& given) {
  std::error_code error;
  std::string path = given;
  bool is_new = true;
  if (given.empty()) {
    path = std::filesystem::temp_directory_path(error).string() + "/simurgh-train-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(
          absl::StrCat(path, ": cannot create the folder: ", std::strerror(errno),
                       "; set TMPDIR, or use --logs FOLDER"));
    }
  } else {
    is_new = std::filesystem::create_directories(path, error);
    path = std::filesystem::absolute(path).string();
  }
  SIMURGH_ASSIGN_OR_RETURN(FileDescriptor lock, Lock(path));
  return std::unique_ptr<RunFolder>(new RunFolder(path, std::move(lock), is_new, given.empty()));
}

StatusOr<FileDescriptor> RunFolder::Lock(const std::string& path) {
  FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("--logs ", path,
                                                   ": cannot use it: ", std::strerror(errno),
                                                   "; name a folder that you may write"));
  }
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) == 0) return lock;
  return absl::InvalidArgumentError(
      absl::StrCat("--logs ", path, ": another simurgh train uses it; name another folder"));
}

Status RunFolder::WriteToken() const {
  char secret[32];
  std::string text;
  if (::getrandom(secret, sizeof(secret), 0) == sizeof(secret)) {
    text = absl::StrCat(absl::BytesToHexString({secret, sizeof(secret)}), "\n");
  }
  ::unlink(token().c_str());  // A run that was killed may have left one.
  const FileDescriptor file(::open(token().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid() && !text.empty() &&
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(token(),
                                                 ": cannot write it: ", std::strerror(errno),
                                                 "; use --logs with a folder that you may write"));
}

// Of the daemon's address. Empty: it has none, as on a Unix socket.
std::string HostOf(const ListedDaemon& daemon) {
  const InstanceConfig& instance = daemon.instance;
  const bool is_loader = daemon.kind == "loader";
  const auto address = rpc::ParseAddress(is_loader ? instance.metrics : instance.address);
  return address.ok() ? address->host : "";
}

// Errors: INVALID_ARGUMENT unless each daemon has a host, and one has this one.
Status CheckHost(const ClusterConfig& config, const std::string& host) {
  std::set<std::string> hosts;
  for (const ListedDaemon& daemon : DaemonsOf(config)) {
    if (!hosts.insert(HostOf(daemon)).second || !HostOf(daemon).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--host: ", daemon.name(), " has no host; give it ",
                     daemon.kind == "loader" ? "`metrics`" : "`address`", ": host:port"));
  }
  if (hosts.contains(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--host: no daemon is at '", host,
                                                 "'; use one of: ", absl::StrJoin(hosts, ", ")));
}

// The daemons of one run, or those of it on one host, children of this process.
//
// An nn-worker and a loader may end before the others. When training has ended, or one daemon has
// ended otherwise, or a signal has come, the rest is stopped: nn-workers and loaders first, since
// they use the others.
class Cluster {
 public:
  // arguments: of every daemon, for its configuration. resume: nn-worker --resume. host: of the
  // daemons; empty: all. Lifetime: `config` outlives the cluster.
  Cluster(const ClusterConfig& config, std::string folder, std::vector<std::string> arguments,
          std::string resume, std::string logs, const std::string& host)
      : config_(config),
        folder_(std::move(folder)),
        programs_(ProgramsOf(config, host)),
        arguments_(std::move(arguments)),
        resume_(std::move(resume)),
        logs_(std::move(logs)) {}
  ~Cluster() { Kill(); }

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
  const std::vector<std::string> arguments_;
  std::string resume_;
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

std::vector<Cluster::Program> Cluster::ProgramsOf(const ClusterConfig& config,
                                                  const std::string& host) {
  std::vector<Program> programs;
  for (const ListedDaemon& daemon : DaemonsOf(config)) {
    if (!host.empty() && HostOf(daemon) != host) continue;
    const std::string name = daemon.kind == "loader" ? "simurgh-feed" : daemon.kind;
    const Role role = daemon.kind == "loader"      ? Role::kLoader
                      : daemon.kind == "nn-worker" ? Role::kTrainer
                                                   : Role::kEmbedding;
    if (programs.empty() || programs.back().name != name) programs.push_back({name, role, {}});
    programs.back().indexes.push_back(daemon.index);
  }
  return programs;
}

std::vector<std::string> Cluster::CommandLine(const std::string& program,
                                              const std::vector<std::string>& more) const {
  std::vector<std::string> words{absl::StrCat(folder_, "/", program)};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ExitCode CodeOf(int wait_status) {
  if (!WIFEXITED(wait_status)) return ExitCode::kRuntimeFailure;
  const int code = WEXITSTATUS(wait_status);
  if (code == static_cast<int>(ExitCode::kOk)) return ExitCode::kOk;
  return code == static_cast<int>(ExitCode::kBadConfiguration) ? ExitCode::kBadConfiguration
                                                               : ExitCode::kRuntimeFailure;
}

StatusOr<ExitCode> Cluster::Check() const {
  for (const Program& program : programs_) {
    SIMURGH_ASSIGN_OR_RETURN(
        const pid_t pid, StartProcess(CommandLine(program.name, {"--check-config"}), "/dev/null",
                                      /*errors=*/"", /*detached=*/false));
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (CodeOf(status) == ExitCode::kOk) continue;
    // It has printed the reason, unless it had no chance.
    if (CodeOf(status) != ExitCode::kBadConfiguration) {
      std::cerr << "simurgh: " << program.name << " --check-config " << DescribeEnd(status)
                << std::endl;
    }
    return CodeOf(status);
  }
  return ExitCode::kOk;
}

Status Cluster::Start() {
  for (const Program& program : programs_) {
    for (const size_t index : program.indexes) {
      std::error_code ignored;
      std::filesystem::remove(LogOf(absl::StrCat(program.name, "-", index)), ignored);
      SIMURGH_RETURN_IF_ERROR(StartOne(program, index));
    }
  }
  return absl::OkStatus();
}

Status Cluster::StartOne(const Program& program, size_t index) {
  Child child{.program = program, .index = index, .pid = 0, .told_to_stop = {}};
  std::vector<std::string> own;
  if (program.role == Role::kTrainer) own = {"--resume", resume_};
  own.insert(own.end(), {"--index", absl::StrCat(index)});
  SIMURGH_ASSIGN_OR_RETURN(child.pid,
                           StartProcess(CommandLine(program.name, own),
                                        IsFirstTrainer(child) ? result_path() : "/dev/null",
                                        LogOf(child.name()), /*detached=*/false));
  children_.push_back(child);
  WriteState();
  return absl::OkStatus();
}

void Cluster::StartDue() {
  // Without nn-workers that train or save, nothing needs the daemons.
  if (failure_ || !IsNeeded() || (interrupted_ && !Runs(Role::kTrainer))) restarts_.clear();
  for (const Restart& restart : std::exchange(restarts_, {})) {
    if (Clock::now() < restart.at) {
      restarts_.push_back(restart);
      continue;
    }
    StartAgain(restart.program, restart.index);
  }
}

void Cluster::WriteState() const {
  RunState state{.processes = {{"simurgh", ::getpid(), StartTimeOf(::getpid()).value_or(0)}}};
  for (const Child& child : children_) {
    state.processes.push_back(
        {child.name(), child.pid, StartTimeOf(child.pid).value_or(0), LogOf(child.name())});
  }
  const Status written = WriteRunState(logs_, state);  // For other commands; training goes on.
  if (!written.ok()) std::cerr << "simurgh: " << written.message() << std::endl;
}

// Those that end this command, and SIGCHLD. A signal that the caller ignores stays ignored.
sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

ExitCode Cluster::Supervise() {
  constexpr timespec kViewInterval{.tv_sec = 0, .tv_nsec = 100'000'000};
  const sigset_t signals = HandledSignals();
  std::vector<std::string> loaders;
  for (const Program& program : programs_) {
    if (program.role != Role::kLoader) continue;
    for (const size_t index : program.indexes) {
      loaders.push_back(LogOf(absl::StrCat(program.name, "-", index)));
    }
  }
  for (const Program& program : programs_) {
    if (program.role != Role::kTrainer) continue;
    view_.emplace(LogOf(absl::StrCat(program.name, "-", program.indexes.front())), loaders);
  }
  const auto will_start = [this] {
    return !restarts_.empty() || (start_again_ && !interrupted_ && !failure_);
  };
  while (!children_.empty() || will_start()) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kViewInterval);
    if (signal > 0 && signal != SIGCHLD) {
      if (std::exchange(interrupted_, true)) {
        Kill();
        return ExitCode::kInterrupted;
      }
      Say("stopping the daemons; a second signal kills them");
    }
    Reap();
    LookElsewhere();
    if (start_again_ && !interrupted_ && !failure_ &&
        (!Runs(Role::kTrainer) || Clock::now() >= *start_again_) &&
        Clock::now() >= trainers_pause_) {
      StartTrainersAgain();
    }
    StartDue();
    StopWhatIsNotNeeded();
    KillWhatDoesNotStop();
    if (!failure_ && view_) view_->Show();
  }
  if (view_) view_->Erase();
  return failure_.value_or(ExitCode::kOk);
}

void Cluster::Reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = std::find_if(children_.begin(), children_.end(),
                                    [&](const Child& child) { return child.pid == pid; });
    if (found == children_.end()) continue;
    const Child child = *found;
    children_.erase(found);
    OnEnd(child, status);
  }
}

void Cluster::OnEnd(const Child& child, int wait_status) {
  constexpr size_t kLogLines = 5;
  if (child.killed ||
      (interrupted_ && child.program.role != Role::kTrainer && !IsNeededToSave(child))) {
    return;
  }
  // A daemon that has just started does not handle SIGTERM yet.
  if (child.told_to_stop && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGTERM) return;
  const bool may_end = child.program.role != Role::kEmbedding || child.told_to_stop;
  const ExitCode code = CodeOf(wait_status);
  if (code == ExitCode::kOk && may_end) {
    if (IsFirstTrainer(child)) goes_on_elsewhere_ = false;
    return;
  }
  if (Recover(child, wait_status)) return;
  const std::string log = LogOf(child.name());
  Say(absl::StrCat(child.name(), " ", DescribeEnd(wait_status),
                   may_end ? "" : " before the nn-workers", "; its log ", log, " ends with:"));
  std::cerr << LastLines(log, kLogLines);
  // A rank may fail because of another one, and still end before it. Later failures are also shown.
  if (failure_) return;
  failure_ = code == ExitCode::kOk ? ExitCode::kRuntimeFailure : code;
  if (!children_.empty()) std::cerr << "simurgh: stopping the other daemons" << std::endl;
}

bool Cluster::Recover(const Child& child, int wait_status) {
  constexpr int kMaxLosses = 3;
  // Nn-workers notice the loss of another one, and end by themselves.
  constexpr std::chrono::seconds kGrace{5};
  const bool is_lost = WIFSIGNALED(wait_status) ||
                       WEXITSTATUS(wait_status) == static_cast<int>(ExitCode::kStartAgain);
  if (!config_.recovers() || !is_lost || failure_ || child.told_to_stop) return false;
  if (interrupted_ && !IsNeededToSave(child)) return false;
  const bool is_trainer = child.program.role == Role::kTrainer;
  if (start_again_ && child.program.role != Role::kEmbedding) return true;
  const auto steps = ModelDirectory(config_.checkpoint.directory).Steps();
  if (steps.ok() && *steps != checkpoints_) {
    checkpoints_ = *steps;
    losses_.clear();
  }
  const int losses = ++losses_[is_trainer ? child.program.name : child.name()];
  const auto pause = std::chrono::seconds(losses - 1);
  if (losses > kMaxLosses) {
    Say(absl::StrCat(child.name(), " was lost ", kMaxLosses + 1,
                     " times without a new checkpoint"));
    return false;
  }
  Say(absl::StrCat(child.name(), " ", DescribeEnd(wait_status), "; starting ",
                   is_trainer ? "nn-workers and loaders" : "it", " again",
                   pause.count() > 0 ? absl::StrCat(" in ", pause.count(), " s") : ""));
  if (is_trainer) {
    start_again_ = Clock::now() + kGrace;
    trainers_pause_ = Clock::now() + pause;
  } else {
    restarts_.push_back({child.program, child.index, Clock::now() + pause});
  }
  return true;
}

bool Cluster::IsNeededToSave(const Child& child) const {
  return config_.recovers() && child.program.role == Role::kEmbedding && !child.told_to_stop &&
         Runs(Role::kTrainer);
}

void Cluster::StartTrainersAgain() {
  start_again_.reset();
  if (!checkpoints_.empty()) resume_ = "auto";  // The model of --resume was for the first start.
  Kill(Role::kTrainer);
  Kill(Role::kLoader);
  for (const Program& program : programs_) {
    if (program.role == Role::kEmbedding) continue;
    for (const size_t index : program.indexes) {
      if (!failure_) StartAgain(program, index);
    }
  }
}

bool Cluster::Runs(Role role) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return child.program.role == role; });
}

void Cluster::Tell(Role role) {
  for (Child& child : children_) {
    if (child.program.role != role || child.told_to_stop) continue;
    child.told_to_stop = Clock::now();
    ::kill(child.pid, SIGTERM);
  }
}

void Cluster::KillWhatDoesNotStop() {
  // A daemon ends its calls, then drains.
  const auto patience = config_.rpc.call_timeout + DaemonDescription().drain_timeout;
  for (Child& child : children_) {
    const bool saves =
        !failure_ && child.program.role == Role::kTrainer && !config_.checkpoint.directory.empty();
    if (!child.told_to_stop || child.killed || saves) continue;
    if (Clock::now() - *child.told_to_stop < patience) continue;
    child.killed = true;
    Say(absl::StrCat(child.name(), " has not ended ", patience.count(),
                     " ms after SIGTERM; killing it"));
    ::kill(child.pid, SIGKILL);
  }
}

void Cluster::StopWhatIsNotNeeded() {
  if (IsNeeded() && !interrupted_ && !failure_) return;
  Tell(Role::kTrainer);
  // A rank of another host may still train to the next step, and save.
  if (goes_on_elsewhere_ && !failure_ && watch_->is_reachable()) return;
  Tell(Role::kLoader);
  if (!Runs(Role::kTrainer) && !Runs(Role::kLoader)) Tell(Role::kEmbedding);
}

Status Cluster::WatchOthers() {
  const std::string& first = programs_.front().name;
  SIMURGH_ASSIGN_OR_RETURN(
      watch_, TrainingWatch::Start(config_, first == "simurgh-feed" ? "loader" : first));
  goes_on_elsewhere_ = true;
  return absl::OkStatus();
}

void Cluster::LookElsewhere() {
  if (!goes_on_elsewhere_ || failure_) return;
  const std::optional<Status> end = watch_->Look();
  if (interrupted_ && !end) watch_->StopTraining();
  const std::optional<std::string>& problem = watch_->problem();
  if (!view_ && !end && std::exchange(shown_problem_, problem) != problem) {
    Say(problem->empty() ? "training continues" : absl::StrCat("nn-worker/0: ", *problem));
  }
  if (!end) return;
  goes_on_elsewhere_ = false;
  if (end->ok()) {
    if (!view_) Say("training has ended");
    return;
  }
  // Where the first nn-worker runs, its end and its log follow.
  if (watch_->was_told() && std::ranges::any_of(children_, IsFirstTrainer)) return;
  Say(absl::StrCat("training has failed: ", end->message()));
  failure_ = ExitCode::kRuntimeFailure;
}

void Cluster::Kill() {
  for (const Child& child : children_) ::kill(child.pid, SIGKILL);
  for (const Child& child : children_) ::waitpid(child.pid, nullptr, 0);
  children_.clear();
}

void Cluster::Kill(Role role) {
  const auto plays = [role](const Child& child) { return child.program.role == role; };
  for (const Child& child : children_) {
    if (plays(child)) ::kill(child.pid, SIGKILL);
  }
  for (const Child& child : children_) {
    if (plays(child)) ::waitpid(child.pid, nullptr, 0);
  }
  std::erase_if(children_, plays);
}

struct TrainOptions {
  ConfigArguments config;
  std::string resume;
  std::string logs;
  std::string host;
  bool refit = false;
  bool json = false;
};

constexpr char kNoValidation[] = "data.validation=[]";  // Of the second training.

// Whether the model is of the second training of --refit.
bool IsRefitted(const std::string& model) {
  const auto newest = ModelDirectory::Find(model);
  if (!newest.ok()) return false;
  const auto& extra = newest->checkpoint.manifest.extra;
  const auto overrides = extra.find("yaml.overrides");
  return overrides != extra.end() && absl::StrContains(overrides->second, kNoValidation);
}

// The two trainings of --refit have different data. Neither must continue the other's model, nor
// a training without --refit.
Status CheckRefit(const ClusterConfig& config, const TrainOptions& options) {
  const std::string& model = config.checkpoint.directory;
  if (!options.refit) {
    std::error_code ignored;
    if (options.resume != "auto" || model.empty() ||
        !std::filesystem::exists(TrialOf(model), ignored) || !IsRefitted(model)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(model, ": trained with --refit; use it, or another checkpoint.directory"));
  }
  const TrainingConfig& training = config.training;
  if (model.empty() || training.early_stopping.patience == 0 ||
      training.evaluate_every_epochs == 0 || training.evaluate_every_steps > 0) {
    return absl::InvalidArgumentError(
        "--refit requires checkpoint.directory, training.early_stopping and "
        "training.evaluate_every_epochs, without training.evaluate_every_steps");
  }
  if (!options.host.empty()) return absl::InvalidArgumentError("--refit does not support --host");
  if (options.resume != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--refit does not support --resume; remove ",
                                                   model, " and ", TrialOf(model),
                                                   " to train anew"));
  }
  if (ModelDirectory::Find(model).ok() && !IsRefitted(model)) {
    return absl::InvalidArgumentError(absl::StrCat(
        model, ": trained without --refit; remove it, or use another checkpoint.directory"));
  }
  return absl::OkStatus();
}

// The test rows are for the second training.
std::vector<std::string> TrialOverrides(const ClusterConfig& config) {
  return {absl::StrCat("checkpoint.directory=", YamlText(TrialOf(config.checkpoint.directory))),
          "data.test=[]"};
}

// Of the second training, for as many epochs as the best model of the trial.
StatusOr<std::vector<std::string>> RefitOverrides(const ClusterConfig& config) {
  ModelDirectory trial(TrialOf(config.checkpoint.directory));
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> step, trial.BestStep());
  if (!step) return absl::NotFoundError(absl::StrCat(trial.path(), ": no best checkpoint"));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint best, trial.Open(*step));
  std::vector<std::string> files;
  for (const std::string& file : config.data.train) files.push_back(YamlText(file));
  for (const std::string& file : config.data.validation) files.push_back(YamlText(file));
  return std::vector<std::string>{
      absl::StrCat("data.train=[", absl::StrJoin(files, ", "), "]"),
      kNoValidation,
      absl::StrCat("training.epochs=", best.manifest.extra.at("train.epochs")),
      "training.early_stopping.patience=0",
      "training.evaluate_every_epochs=0",
      "training.evaluate_every_steps=0",
      "checkpoint.keep_best=0"};
}

// One training. Sets `result` to what the first nn-worker prints: nothing if it was stopped.
// is_last: another one follows if it succeeds.
StatusOr<ExitCode> TrainOnce(const TrainOptions& options, const ConfigArguments& arguments,
                             const RunFolder& folder, bool is_last, std::string& result) {
  const bool is_alone = options.host.empty();
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           arguments.Load(is_alone ? InputFiles::kCheck : InputFiles::kIgnore));
  std::vector<std::string> words{"--config", arguments.path};
  for (const std::string& override : arguments.overrides) {
    words.insert(words.end(), {"--set", override});
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  Cluster cluster(config, program.parent_path(), words, options.resume, folder.path(),
                  options.host);
  SIMURGH_ASSIGN_OR_RETURN(const ExitCode checked, cluster.Check());
  if (checked != ExitCode::kOk) return checked;
  if (!is_alone) SIMURGH_RETURN_IF_ERROR(cluster.WatchOthers());
  SIMURGH_RETURN_IF_ERROR(cluster.Start());
  const ExitCode code = cluster.Supervise();
  std::ifstream file(cluster.result_path());
  result.assign(std::istreambuf_iterator<char>(file), {});
  if (is_last || code != ExitCode::kOk || result.empty()) {
    WriteRunState(folder.path(), {.exit_code = static_cast<int>(code)}).IgnoreError();
  }
  return code;
}

// INVALID_ARGUMENT is an error of arguments or configuration.
StatusOr<ExitCode> Train(const TrainOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const auto folder, RunFolder::Create(options.logs));
  const bool is_alone = options.host.empty();
  ConfigArguments arguments = options.config;
  if (is_alone) {
    SIMURGH_RETURN_IF_ERROR(folder->WriteToken());
    // The first override: one that the user gives wins.
    arguments.overrides.insert(arguments.overrides.begin(),
                               absl::StrCat("cluster.token_file=", YamlText(folder->token())));
  }
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           arguments.Load(is_alone ? InputFiles::kCheck : InputFiles::kIgnore));
  if (!is_alone) SIMURGH_RETURN_IF_ERROR(CheckHost(config, options.host));
  SIMURGH_RETURN_IF_ERROR(CheckRefit(config, options));

  std::signal(SIGPIPE, SIG_IGN);  // Training does not need its progress view.
  std::signal(SIGCHLD, SIG_DFL);  // Ignored, it would reap children.
  const sigset_t signals = HandledSignals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const auto with = [&](const std::vector<std::string>& more) {
    ConfigArguments all = arguments;
    all.overrides.insert(all.overrides.end(), more.begin(), more.end());
    return all;
  };
  std::string result;
  SIMURGH_ASSIGN_OR_RETURN(
      ExitCode code, TrainOnce(options, options.refit ? with(TrialOverrides(config)) : arguments,
                               *folder, /*is_last=*/!options.refit, result));
  if (options.refit && code == ExitCode::kOk && !result.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> more, RefitOverrides(config));
    std::cerr << "simurgh: training again on the rows of data.validation, too: " << more[2]
              << std::endl;
    SIMURGH_ASSIGN_OR_RETURN(code,
                             TrainOnce(options, with(more), *folder, /*is_last=*/true, result));
  }
  if (code != ExitCode::kOk) return code;
  if (options.json && !result.empty()) {
    PrintJson(ResultJson(result));
  } else {
    std::cout << result;
  }
  folder->Discard();
  return code;
}

}  // namespace

ExitCode RunTrainCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  TrainOptions parsed;
  po::options_description options("Options");
  options.add_options()(
      "resume", po::value(&parsed.resume)->default_value("auto", "")->value_name("WHAT"),
      "continue a model: auto (the default): the newest in checkpoint.directory, if any; never; or "
      "the path of a model or checkpoint")(
      "logs", po::value(&parsed.logs)->value_name("FOLDER"),
      "write the logs to FOLDER, one per daemon, and keep them (default: a temporary folder, "
      "removed after a success)")(
      "host", po::value(&parsed.host)->value_name("NAME")->notifier(RefuseEmptyHost),
      "run only the daemons that CONFIG places on this host")(
      "refit", po::bool_switch(&parsed.refit),
      "train twice: with validation, then on the rows of validation, too");
  AddJsonOption(options, &parsed.json);
  const auto run = [&](const ConfigArguments& config) -> StatusOr<ExitCode> {
    parsed.config = config;
    std::error_code ignored;
    if (std::filesystem::exists(config.path, ignored) &&
        !std::filesystem::is_regular_file(config.path, ignored)) {
      return absl::InvalidArgumentError(absl::StrCat(
          config.path, " is not a regular file; name one, since every daemon reads it"));
    }
    return Train(parsed);
  };
  return RunConfigCommand(argc, argv,
                          {"train: runs all daemons of a configuration on this machine and trains",
                           kTrainUsage, kNotes},
                          options, run);
}

}  // namespace simurgh
