#include "services/simurgh/run_processes.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/file_descriptor.h"

namespace simurgh {
namespace {

StatusOr<FileDescriptor> OpenFile(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (file.valid()) return file;
  return absl::UnavailableError(absl::StrCat(path, ": cannot open it: ", std::strerror(errno)));
}

std::string PathIn(const std::string& folder) { return folder + "/state"; }

// Runs the program, in the child. Calls only functions that are safe between fork and exec.
[[noreturn]] void Execute(pid_t parent, bool detached, char* const* argv, int input, int output,
                          int errors) {
  constexpr int kCannotExecute = 127;
  if (detached) {
    ::setsid();
  } else {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kCannotExecute);  // The parent ended before the call above.
    ::setpgid(0, 0);
  }
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv[0], argv);
  const char* const problem = strerrordesc_np(errno);
  for (const char* text : {"simurgh: cannot execute ", static_cast<const char*>(argv[0]), ": ",
                           problem == nullptr ? "unknown error" : problem, "\n"}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
  ::_exit(kCannotExecute);
}

}  // namespace

StatusOr<pid_t> StartProcess(const std::vector<std::string>& words, const std::string& output,
                             const std::string& errors, bool detached) {
  constexpr int kWrite = O_WRONLY | O_CREAT;
  SIMURGH_ASSIGN_OR_RETURN(const FileDescriptor in, OpenFile("/dev/null", O_RDONLY));
  FileDescriptor out;
  if (!output.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(out, OpenFile(output, kWrite | O_TRUNC));
  }
  FileDescriptor log;
  if (!errors.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(log, OpenFile(errors, kWrite | O_APPEND));
  }
  std::vector<std::string> arguments = words;
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return absl::UnavailableError(absl::StrCat("cannot start ", words[0], ": ",
                                               std::strerror(errno),
                                               "; raise the limit of processes (ulimit -u)"));
  }
  if (child > 0) return child;
  Execute(parent, detached, argv.data(), in.number(), out.valid() ? out.number() : STDOUT_FILENO,
          log.valid() ? log.number() : STDERR_FILENO);
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("ended with code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

std::optional<uint64_t> StartTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field, the name in parentheses, may have spaces and parentheses.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  constexpr size_t kStartTime = 22 - 3;  // Field 22; the third follows the name.
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(end + 1), ' ', absl::SkipEmpty());
  uint64_t ticks = 0;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kStartTime], &ticks)) {
    return std::nullopt;
  }
  return ticks;
}

Status WriteRunState(const std::string& folder, const RunState& state) {
  const std::string path = PathIn(folder);
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary);
  for (const RunProcess& process : state.processes) {
    file << process.name << "\t" << process.pid << "\t" << process.start_time << "\t" << process.log
         << "\n";
  }
  if (state.exit_code) file << "exit\t" << *state.exit_code << "\n";
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot write it: ", std::strerror(errno)));
}

StatusOr<RunState> ReadRunState(const std::string& folder) {
  const std::string path = PathIn(folder);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  RunState state;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    RunProcess process;
    int code = 0;
    if (words.size() == 2 && words[0] == "exit" && absl::SimpleAtoi(words[1], &code)) {
      state.exit_code = code;
    } else if (words.size() == 4 && absl::SimpleAtoi(words[1], &process.pid) && process.pid > 0 &&
               absl::SimpleAtoi(words[2], &process.start_time)) {
      process.name = words[0];
      process.log = words[3];
      state.processes.push_back(process);
    } else {
      return absl::DataLossError(absl::StrCat(path, ": malformed; stop the daemons by hand"));
    }
  }
  return state;
}

}  // namespace simurgh
