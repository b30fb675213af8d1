#include "services/simurgh/cluster_processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "model/model_directory.h"
#include "rpc/address.h"
#include "services/nn_worker/nn_worker.h"
#include "services/runtime/daemon.h"
#include "services/runtime/train_environment.h"

namespace simurgh {

std::string HostOf(const ListedDaemon& daemon) {
  const InstanceConfig& instance = daemon.instance;
  const bool is_loader = daemon.kind == "loader";
  const auto address = rpc::ParseAddress(is_loader ? instance.metrics : instance.address);
  return address.ok() ? address->host : "";
}

namespace {

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

ClusterProcesses::ClusterProcesses(const ClusterConfig& config, Arguments arguments,
                                   std::string logs, const std::string& host)
    : config_(config),
      folder_(ProgramFolder()),
      programs_(ProgramsOf(config, host, arguments)),
      arguments_(std::move(arguments)),
      logs_(std::move(logs)) {}

std::vector<ClusterProcesses::Program> ClusterProcesses::ProgramsOf(const ClusterConfig& config,
                                                                    const std::string& host,
                                                                    const Arguments& arguments) {
  std::vector<Program> programs;
  for (const ListedDaemon& daemon : DaemonsOf(config)) {
    if (!host.empty() && HostOf(daemon) != host) continue;
    if (arguments.standalone && daemon.kind.starts_with("embedding-")) continue;
    // Programs feed a training without files.
    if (daemon.kind == "loader" && config.data.train.empty() && !config.data.streams()) continue;
    const bool is_program = !arguments.program.empty() && daemon.kind == "nn-worker";
    const std::string name = daemon.kind == "loader" ? "simurgh-feed"
                             : is_program            ? "program"
                                                     : daemon.kind;
    const Role role = daemon.kind == "loader"      ? Role::kLoader
                      : daemon.kind == "nn-worker" ? Role::kTrainer
                                                   : Role::kEmbedding;
    if (programs.empty() || programs.back().name != name) programs.push_back({name, role, {}});
    // A program starts its ranks itself.
    if (!is_program || programs.back().indexes.empty()) {
      programs.back().indexes.push_back(daemon.index);
    }
  }
  return programs;
}

std::vector<std::string> ClusterProcesses::CommandLine(const std::string& program,
                                                       const std::vector<std::string>& more) const {
  std::vector<std::string> words{absl::StrCat(folder_, "/", program)};
  words.insert(words.end(), arguments_.of_all.begin(), arguments_.of_all.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

namespace {

ExitCode CodeOf(int wait_status) {
  if (!WIFEXITED(wait_status)) return ExitCode::kRuntimeFailure;
  const int code = WEXITSTATUS(wait_status);
  if (code == static_cast<int>(ExitCode::kOk)) return ExitCode::kOk;
  return code == static_cast<int>(ExitCode::kBadConfiguration) ? ExitCode::kBadConfiguration
                                                               : ExitCode::kRuntimeFailure;
}

}  // namespace

StatusOr<ExitCode> ClusterProcesses::Check() const {
  for (const ListedDaemon& daemon : DaemonsOf(config_)) {
    if (arguments_.standalone) break;
    if (daemon.kind != "embedding-ps" && daemon.kind != "embedding-worker") continue;
    const auto address = rpc::ParseAddress(daemon.instance.address);
    if (!address.ok() || address->has_path() || address->port != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(daemon.kind, " ", daemon.index, ": address '", daemon.instance.address,
                     "': the other daemons cannot find any free port; give it one"));
  }
  if (!arguments_.program.empty()) {
    const Status status = DescribeNnWorker(/*is_hosted=*/true).check(config_);
    if (!status.ok()) return status;
  }
  for (const Program& program : programs_) {
    if (program.role == Role::kTrainer && !arguments_.program.empty()) continue;
    const std::string path = absl::StrCat(folder_, "/", program.name);
    if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no such program; build it with scripts/build.sh release ",
                       program.name, ", or install it there"));
    }
    SIMURGH_ASSIGN_OR_RETURN(
        const pid_t pid, StartProcess(CommandLine(program.name, {"--check-config"}), "/dev/null",
                                      /*errors=*/"", /*detached=*/false));
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (CodeOf(status) == ExitCode::kOk) continue;
    // The program has printed the reason of a bad configuration.
    if (CodeOf(status) != ExitCode::kBadConfiguration) {
      std::cerr << "simurgh: " << program.name << " --check-config " << DescribeEnd(status)
                << std::endl;
    }
    return CodeOf(status);
  }
  return ExitCode::kOk;
}

Status ClusterProcesses::Start() {
  for (const Program& program : programs_) {
    for (const size_t index : program.indexes) {
      std::error_code ignored;
      std::filesystem::remove(LogOf(absl::StrCat(program.name, "-", index)), ignored);
      SIMURGH_RETURN_IF_ERROR(StartOne(program, index));
    }
  }
  return absl::OkStatus();
}

Status ClusterProcesses::StartOne(const Program& program, size_t index) {
  Child child{.program = program, .index = index, .pid = 0, .told_to_stop = {}};
  std::vector<std::string> own;
  if (program.role == Role::kTrainer) {
    own = {"--resume", arguments_.resume};
    if (!arguments_.update.empty()) own = {"--update", arguments_.update};
    if (arguments_.standalone) own.emplace_back("--standalone");
  }
  own.insert(own.end(), {"--index", absl::StrCat(index)});
  const std::string log = LogOf(child.name());
  SIMURGH_ASSIGN_OR_RETURN(
      child.pid, is_program(child)
                     ? StartProgram(log)
                     : StartProcess(CommandLine(program.name, own),
                                    IsFirstTrainer(child) ? result_path() : "/dev/null", log,
                                    /*detached=*/false));
  children_.push_back(child);
  WriteState();
  return absl::OkStatus();
}

StatusOr<pid_t> ClusterProcesses::StartProgram(const std::string& log) const {
  TrainEnvironment environment{
      .resume = arguments_.resume, .result = result_path(), .codes = logs_};
  std::error_code ignored;
  std::filesystem::remove(result_path(), ignored);
  for (size_t rank = 0; rank < config_.nn_worker.instances.size(); ++rank) {
    std::filesystem::remove(TrainEnvironment::CodePath(logs_, rank), ignored);
  }
  environment.config = std::filesystem::absolute(config_.source.path, ignored).string();
  environment.overrides = config_.source.overrides;
  ::setenv(TrainEnvironment::kVariable, environment.ToText().c_str(), /*replace=*/1);
  // Threads of OpenMP that spin for long would take the cores from the other daemons. Arrays below
  // 256 MiB that a step frees stay in the process: the kernel would clear their pages each time.
  std::vector<const char*> set_here;
  for (const auto& [name, value] :
       {std::pair("OMP_WAIT_POLICY", "passive"), std::pair("GOMP_SPINCOUNT", "5000"),
        std::pair("MALLOC_MMAP_THRESHOLD_", "268435456"),
        std::pair("MALLOC_TRIM_THRESHOLD_", "268435456")}) {
    if (::getenv(name) != nullptr) continue;
    ::setenv(name, value, /*replace=*/0);
    set_here.push_back(name);
  }
  StatusOr<pid_t> pid = StartProcess(arguments_.program, /*output=*/"", log, /*detached=*/false);
  for (const char* const name : set_here) ::unsetenv(name);
  ::unsetenv(TrainEnvironment::kVariable);
  return pid;
}

void ClusterProcesses::StartDue() {
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

void ClusterProcesses::WriteState() const {
  RunState state{.processes = {{"simurgh", ::getpid(), StartTimeOf(::getpid()).value_or(0)}}};
  for (const Child& child : children_) {
    state.processes.push_back(
        {child.name(), child.pid, StartTimeOf(child.pid).value_or(0), LogOf(child.name())});
  }
  // Only other commands need the file: training continues without it.
  const Status written = WriteRunState(logs_, state);
  if (!written.ok()) std::cerr << "simurgh: " << written.message() << std::endl;
}

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

ExitCode ClusterProcesses::Supervise() {
  constexpr timespec kViewInterval{.tv_sec = 0, .tv_nsec = 100'000'000};
  const sigset_t signals = HandledSignals();
  std::vector<std::string> others;  // Logs whose warnings are shown.
  for (const Program& program : programs_) {
    if (program.role != Role::kLoader && program.name != "embedding-ps") continue;
    for (const size_t index : program.indexes) {
      others.push_back(LogOf(absl::StrCat(program.name, "-", index)));
    }
  }
  for (const Program& program : programs_) {
    if (program.role != Role::kTrainer) continue;
    view_.emplace(LogOf(absl::StrCat(program.name, "-", program.indexes.front())), others);
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

void ClusterProcesses::Reap() {
  int status = 0;
  std::vector<std::pair<Child, int>> ended;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = std::find_if(children_.begin(), children_.end(),
                                    [&](const Child& child) { return child.pid == pid; });
    if (found == children_.end()) continue;
    ended.emplace_back(*found, status);
    children_.erase(found);
    if (is_program(ended.back().first)) {
      ::kill(-pid, SIGKILL);  // Ranks that it has started and left behind.
    }
  }
  // The end of a daemon means less after that of the nn-workers.
  std::ranges::partition(ended,
                         [](const auto& one) { return one.first.program.role == Role::kTrainer; });
  for (const auto& [child, wait_status] : ended) OnEnd(child, wait_status);
}

void ClusterProcesses::OnEnd(const Child& child, int wait_status) {
  constexpr size_t kLogLines = 5;
  if (child.killed ||
      (interrupted_ && child.program.role != Role::kTrainer && !IsNeededToSave(child))) {
    return;
  }
  // A daemon that has just started does not handle SIGTERM yet. The end of training needs no daemon
  // but nn-workers, which save.
  const int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  if (child.told_to_stop && signal == SIGTERM) return;
  if (signal == SIGKILL && child.program.role != Role::kTrainer && !IsNeeded()) return;
  const bool may_end = child.program.role != Role::kEmbedding || child.told_to_stop;
  const auto [code, reason] = EndOf(child, wait_status);
  if (code == ExitCode::kOk && may_end) {
    if (IsFirstTrainer(child)) goes_on_elsewhere_ = false;
    return;
  }
  if (Recover(child, wait_status, code)) return;
  const std::string log = LogOf(child.name());
  Say(absl::StrCat(child.name(), " ", DescribeEnd(wait_status),
                   may_end ? "" : " before the nn-workers", reason.empty() ? "" : ": ", reason,
                   "; its log ", log, " ends with:"));
  std::cerr << LastLines(log, kLogLines);
  // A rank may fail because of another one, and still end first. So later failures are shown, too.
  if (failure_) return;
  failure_ = code == ExitCode::kBadConfiguration ? code : ExitCode::kRuntimeFailure;
  if (!children_.empty()) std::cerr << "simurgh: stopping the other daemons" << std::endl;
}

ClusterProcesses::End ClusterProcesses::EndOf(const Child& child, int wait_status) const {
  if (WIFSIGNALED(wait_status)) return {ExitCode::kStartAgain, ""};
  const auto code = static_cast<ExitCode>(WEXITSTATUS(wait_status));
  if (!is_program(child)) return {code, ""};
  // The program may end with another code than its ranks, for example if torchrun has started them.
  bool has_trained = false;
  bool is_lost = false;
  for (size_t rank = 0; rank < config_.nn_worker.instances.size(); ++rank) {
    std::ifstream file(TrainEnvironment::CodePath(logs_, rank));
    int of_rank = 0;
    if (!(file >> of_rank)) continue;  // It runs elsewhere, or has not opened a worker.
    has_trained = true;
    if (of_rank == static_cast<int>(ExitCode::kOk)) continue;
    if (of_rank == static_cast<int>(ExitCode::kStartAgain)) {
      is_lost = true;
      continue;
    }
    std::string reason;
    std::getline(file >> std::ws, reason);
    return {static_cast<ExitCode>(of_rank), reason};
  }
  if (code == ExitCode::kOk && !has_trained) {
    return {ExitCode::kRuntimeFailure,
            "it has not trained; open a Worker, and take its batches until there are no more"};
  }
  // torchrun ends with 1 after SIGTERM.
  if (child.told_to_stop && has_trained && !is_lost) return {ExitCode::kOk, ""};
  return {is_lost ? ExitCode::kStartAgain : code, ""};
}

bool ClusterProcesses::Recover(const Child& child, int wait_status, ExitCode code) {
  constexpr int kMaxLosses = 3;
  // Nn-workers notice the loss of another process, and end by themselves.
  constexpr std::chrono::seconds kGrace{5};
  const bool is_lost = code == ExitCode::kStartAgain;
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

bool ClusterProcesses::IsNeededToSave(const Child& child) const {
  return config_.recovers() && child.program.role == Role::kEmbedding && !child.told_to_stop &&
         Runs(Role::kTrainer);
}

void ClusterProcesses::StartTrainersAgain() {
  start_again_.reset();
  if (!checkpoints_.empty())
    arguments_.resume = "auto";  // The model of --resume was for the first start.
  Kill(Role::kTrainer);
  Kill(Role::kLoader);
  for (const Program& program : programs_) {
    if (program.role == Role::kEmbedding) continue;
    for (const size_t index : program.indexes) {
      if (!failure_) StartAgain(program, index);
    }
  }
}

bool ClusterProcesses::Runs(Role role) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return child.program.role == role; });
}

void ClusterProcesses::Tell(Role role) {
  for (Child& child : children_) {
    if (child.program.role != role || child.told_to_stop) continue;
    child.told_to_stop = Clock::now();
    ::kill(child.pid, SIGTERM);
  }
}

void ClusterProcesses::KillWhatDoesNotStop() {
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

void ClusterProcesses::StopWhatIsNotNeeded() {
  if (IsNeeded() && !interrupted_ && !failure_) return;
  Tell(Role::kTrainer);
  // A rank of another host may still train to the next step, and save.
  if (goes_on_elsewhere_ && !failure_ && watch_->is_reachable()) return;
  Tell(Role::kLoader);
  if (!Runs(Role::kTrainer) && !Runs(Role::kLoader)) Tell(Role::kEmbedding);
}

Status ClusterProcesses::WatchOthers() {
  const std::string& first = programs_.front().name;
  SIMURGH_ASSIGN_OR_RETURN(
      watch_, TrainingWatch::Start(config_, first == "simurgh-feed" ? "loader" : first));
  goes_on_elsewhere_ = true;
  return absl::OkStatus();
}

void ClusterProcesses::LookElsewhere() {
  if (!goes_on_elsewhere_ || failure_) return;
  const std::optional<Status> end = watch_->Look();
  // Here, the first nn-worker gets a signal.
  if (interrupted_ && !end && !std::ranges::any_of(children_, IsFirstTrainer)) {
    watch_->StopTraining();
  }
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
  // On the host of the first nn-worker, its own end and its log show the reason.
  if (watch_->was_told() && std::ranges::any_of(children_, IsFirstTrainer)) return;
  Say(absl::StrCat("training has failed: ", end->message()));
  failure_ = ExitCode::kRuntimeFailure;
}

void ClusterProcesses::Kill() {
  for (const Role role : {Role::kEmbedding, Role::kLoader, Role::kTrainer}) Kill(role);
}

void ClusterProcesses::Kill(Role role) {
  const auto plays = [role](const Child& child) { return child.program.role == role; };
  for (const Child& child : children_) {
    if (!plays(child)) continue;
    ::kill(child.pid, SIGKILL);
    if (is_program(child)) ::kill(-child.pid, SIGKILL);  // Its process group.
  }
  for (const Child& child : children_) {
    if (plays(child)) ::waitpid(child.pid, nullptr, 0);
  }
  std::erase_if(children_, plays);
}

}  // namespace simurgh
