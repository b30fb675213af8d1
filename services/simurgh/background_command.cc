// simurgh up, down and logs: `simurgh train` in the background.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/file_descriptor.h"
#include "config/cluster_config.h"
#include "config/nearest.h"
#include "config/uri.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/run_processes.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kPoll{50};

constexpr char kFolderNotes[] =
    R"(The run has a folder for its logs, its token and its state: --run FOLDER, or by default
checkpoint.directory with `.run` at the end, and `-NAME` with --host NAME. Of a model in a
bucket it is in the working directory.

)";

constexpr char kUpNotes[] =
    R"(Runs `simurgh train` in the background and returns once the daemons have been started. It
starts lost daemons again and ends when training ends. `simurgh status` shows its state.

Exit codes:
  0  started
  2  bad arguments or configuration, or the run exists already
  3  a daemon failed; the log has the reason
)";

constexpr char kDownNotes[] =
    R"(Stops first the nn-workers and loaders, which save the model, then the other daemons. Waits
until all have ended. The process is checked by its start time, so no other one is stopped.

Exit codes:
  0  no daemon runs
  2  bad arguments or configuration
  3  a daemon failed, as when it saved the model; the log has the reason
)";

constexpr char kLogsNotes[] =
    R"(Prints the ends of all logs, or the whole logs of the given daemons, as in
`simurgh logs clicks.yaml nn-worker/0`. `nn-worker` means all nn-workers. `simurgh` is the log
of the command in the background.

Exit codes:
  0  printed
  2  bad arguments or configuration, or there is no such log
)";

// The folder of a run, from its options.
class RunOptions {
 public:
  // Lifetime: the options must not outlive this object.
  void AddTo(boost::program_options::options_description& options) {
    namespace po = boost::program_options;
    options.add_options()("run", po::value(&run_)->value_name("FOLDER"),
                          "use this folder for the run")(
        "host", po::value(&host_)->value_name("NAME")->notifier(RefuseEmptyHost),
        "the run is of simurgh train --host NAME");
  }

  const std::string& host() const { return host_; }

  // Returns the absolute path. Errors: INVALID_ARGUMENT.
  StatusOr<std::string> FolderOf(const ConfigArguments& arguments) const {
    SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load());
    std::string folder = run_;
    if (folder.empty()) {
      if (config.checkpoint.directory.empty()) {
        return absl::InvalidArgumentError(
            "the run has no folder; give --run FOLDER, or set checkpoint.directory");
      }
      folder = config.checkpoint.directory;
      while (folder.ends_with('/')) folder.pop_back();
      // The run of a model in a bucket is in the working directory.
      if (IsUri(folder)) folder = folder.substr(folder.rfind('/') + 1);
      folder += ".run";
      if (!host_.empty()) folder += "-" + host_;
    }
    return std::filesystem::absolute(folder).lexically_normal().string();
  }

 private:
  std::string run_;
  std::string host_;
};

// The process of the run's command. A pid that the system reuses is not mistaken for it.
class Supervisor {
 public:
  // Returns the command of a run; nothing if it does not run.
  static StatusOr<std::optional<Supervisor>> Find(const std::string& folder) {
    const StatusOr<RunState> state = ReadRunState(folder);
    if (absl::IsNotFound(state.status())) return std::nullopt;
    SIMURGH_RETURN_IF_ERROR(state.status());
    if (state->processes.empty()) return std::nullopt;
    const RunProcess& process = state->processes.front();
    // The descriptor names one process. Equal start times show that it is the run's.
    FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!handle.valid() || StartTimeOf(process.pid) != process.start_time) return std::nullopt;
    Supervisor found(std::move(handle));
    // A process that has ended keeps its pid until its parent reads the exit code.
    if (found.AwaitEnd(std::chrono::milliseconds(0))) return std::nullopt;
    return found;
  }

  // The C library's header lacks these functions for C++.
  void Signal(int signal) const {
    ::syscall(SYS_pidfd_send_signal, handle_.number(), signal, nullptr, 0);
  }

  // Waits for the end, for `time` at most. Returns whether the process has ended.
  bool AwaitEnd(std::chrono::milliseconds time) const {
    pollfd ended{.fd = handle_.number(), .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, static_cast<int>(time.count())) > 0;
  }

 private:
  explicit Supervisor(FileDescriptor handle) : handle_(std::move(handle)) {}

  FileDescriptor handle_;
};

std::string LogOf(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name, ".log");
}

StatusOr<ExitCode> Up(const ConfigArguments& config, const RunOptions& run,
                      const std::string& resume, bool refit) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string folder, run.FolderOf(config));
  SIMURGH_ASSIGN_OR_RETURN(const auto running, Supervisor::Find(folder));
  if (running) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": the daemons run already; use simurgh down first"));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string log = LogOf(folder, "simurgh");
  for (const std::string& old : {log, folder + "/state"}) std::filesystem::remove(old, error);
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe", error).string(),
                                 "train", config.path, "--logs", folder};
  for (const std::string& override : config.overrides) {
    words.insert(words.end(), {"--set", override});
  }
  words.insert(words.end(), {"--resume", resume});
  if (refit) words.emplace_back("--refit");
  if (!run.host().empty()) words.insert(words.end(), {"--host", run.host()});
  SIMURGH_ASSIGN_OR_RETURN(const pid_t pid,
                           StartProcess(words, folder + "/result", log, /*detached=*/true));
  // The child checks the configuration with all programs, and then starts them.
  for (int status = 0; !ReadRunState(folder).ok();) {
    if (::waitpid(pid, &status, WNOHANG) != pid) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    std::cerr << LastLines(log, /*lines=*/20);
    const bool is_bad =
        WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ExitCode::kBadConfiguration);
    return is_bad ? ExitCode::kBadConfiguration : ExitCode::kRuntimeFailure;
  }
  std::cout << "started; logs and state: " << folder << "\n";
  return ExitCode::kOk;
}

StatusOr<ExitCode> Down(const std::string& folder, bool now) {
  SIMURGH_ASSIGN_OR_RETURN(const auto running, Supervisor::Find(folder));
  if (!running) {
    std::cout << "no daemons run\n";
    return ExitCode::kOk;
  }
  running->Signal(SIGTERM);
  if (now) running->Signal(SIGINT);  // The second signal kills the daemons.
  for (int rounds = 1; !running->AwaitEnd(std::chrono::seconds(10)); ++rounds) {
    std::cerr << "simurgh: waiting for the daemons: seconds=" << 10 * rounds << std::endl;
  }
  const StatusOr<RunState> state = ReadRunState(folder);
  const int code = state.ok() ? state->exit_code.value_or(0) : 0;
  if (code != 0 && !now) {
    std::cerr << LastLines(LogOf(folder, "simurgh"), /*lines=*/20);
    return ExitCode::kRuntimeFailure;
  }
  std::cout << "stopped\n";
  return ExitCode::kOk;
}

// Prints new lines of the files, until the run has ended.
void Follow(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::streamoff> shown;
  for (const std::string& name : names) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(LogOf(folder, name), error);
    shown[name] = error ? 0 : static_cast<std::streamoff>(bytes);
  }
  for (bool runs = true; runs && std::cout; std::this_thread::sleep_for(kPoll)) {
    const auto running = Supervisor::Find(folder);
    runs = running.ok() && running->has_value();
    for (const std::string& name : names) {
      std::ifstream file(LogOf(folder, name), std::ios::binary);
      file.seekg(shown[name]);
      std::string line;
      // A line without its end is printed later.
      while (std::getline(file, line) && !file.eof()) {
        std::cout << line << "\n";
        shown[name] = file.tellg();
      }
    }
    std::cout.flush();
  }
}

// Returns the names of all logs, for example nn-worker-0; those of a program in order of the index.
std::vector<std::string> NamesOfLogs(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".log") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names, {}, [](const std::string& name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    return std::tuple(name.substr(0, digits), name.size(), name);
  });
  return names;
}

StatusOr<ExitCode> Logs(const std::string& folder, const std::vector<std::string>& daemons,
                        size_t lines, bool follows) {
  const std::vector<std::string> existing = NamesOfLogs(folder);
  if (existing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": no logs; start the daemons with simurgh up"));
  }
  const bool all = daemons.empty();
  std::vector<std::string> names = all ? existing : std::vector<std::string>{};
  for (const std::string& daemon : daemons) {
    const std::string wanted = absl::StrReplaceAll(daemon, {{"/", "-"}});
    const size_t before = names.size();
    std::ranges::copy_if(existing, std::back_inserter(names), [&](const std::string& name) {
      const bool is_index = name.find_last_not_of("0123456789") == wanted.size();
      return name == wanted || (is_index && name.starts_with(absl::StrCat(wanted, "-")));
    });
    if (names.size() > before) continue;
    return absl::InvalidArgumentError(absl::StrCat(LogOf(folder, wanted), ": no such log; ",
                                                   NearestRemedy("log", wanted, existing)));
  }
  std::error_code error;
  for (const std::string& name : names) {
    const std::string path = LogOf(folder, name);
    if (all || names.size() > 1) std::cout << "==> " << path << " <==\n";
    if (all) std::cout << LastLines(path, lines);
    if (!all && std::filesystem::file_size(path, error) > 0) {
      std::cout << std::ifstream(path, std::ios::binary).rdbuf();
    }
  }
  std::cout.flush();
  if (follows) Follow(folder, names);
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunUpCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  RunOptions run;
  std::string resume;
  bool refit = false;
  po::options_description options("Options");
  run.AddTo(options);
  options.add_options()("resume", po::value(&resume)->default_value("auto", "")->value_name("WHAT"),
                        "continue a model, as simurgh train --resume")(
      "refit", po::bool_switch(&refit), "train twice, as simurgh train --refit");
  return RunConfigCommand(
      argc, argv,
      {"up: starts all daemons of a configuration on this machine", kUpUsage,
       absl::StrCat(kFolderNotes, kUpNotes)},
      options, [&](const ConfigArguments& config) { return Up(config, run, resume, refit); });
}

ExitCode RunDownCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  RunOptions run;
  bool now = false;
  po::options_description options("Options");
  run.AddTo(options);
  options.add_options()("now", po::bool_switch(&now),
                        "kill the daemons, which do not save the model");
  return RunConfigCommand(
      argc, argv,
      {"down: stops the daemons of simurgh up", kDownUsage, absl::StrCat(kFolderNotes, kDownNotes)},
      options, [&](const ConfigArguments& config) -> StatusOr<ExitCode> {
        SIMURGH_ASSIGN_OR_RETURN(const std::string folder, run.FolderOf(config));
        return Down(folder, now);
      });
}

ExitCode RunLogsCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  RunOptions run;
  size_t lines = 0;
  bool follows = false;
  po::options_description options("Options");
  run.AddTo(options);
  options.add_options()("follow", po::bool_switch(&follows),
                        "print further lines until the run ends")(
      "lines", po::value(&lines)->default_value(10)->value_name("N"),
      "print the last N lines of each log, if no daemon is given");
  return RunConfigCommand(
      argc, argv,
      {"logs: prints the logs of the daemons of simurgh up", kLogsUsage,
       absl::StrCat(kFolderNotes, kLogsNotes)},
      options,
      [&](const ConfigArguments& config) -> StatusOr<ExitCode> {
        SIMURGH_ASSIGN_OR_RETURN(const std::string folder, run.FolderOf(config));
        return Logs(folder, config.more, lines, follows);
      },
      /*most_words=*/SIZE_MAX);
}

}  // namespace simurgh
