#include "tests/support/daemon_process.h"

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

// How often a condition of another process is looked at.

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

DaemonProcess::DaemonProcess(const std::string& program, const std::vector<std::string>& arguments,
                             const std::string& log)
    : log_path_(log) {
  const char* folder = std::getenv("SIMURGH_BIN_DIR");
  SIMURGH_CHECK(folder != nullptr) << "set SIMURGH_BIN_DIR to build/<preset>/bin";
  std::string path = std::string(folder) + "/" + program;
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), path);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (log + ".out").c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), kFlags, 0600);
  const int error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  SIMURGH_CHECK_EQ(error, 0) << "cannot start " << path;
}

DaemonProcess::~DaemonProcess() {
  if (!running()) return;
  Signal(SIGKILL);
  Wait(std::chrono::seconds(10));
}

void DaemonProcess::Signal(int signal) const { kill(pid_, signal); }

bool DaemonProcess::running() {
  if (exit_code_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

std::optional<int> DaemonProcess::Wait(std::chrono::seconds deadline) {
  if (!testing::Eventually([this] { return !running(); }, deadline)) return std::nullopt;
  return exit_code_;
}

bool DaemonProcess::WaitForLog(const std::string& text, std::chrono::seconds deadline) {
  bool found = false;
  testing::Eventually(
      [&] {
        // Looked at before the log is read: what an ended process wrote is all there.
        const bool was_running = running();
        found = log().find(text) != std::string::npos;
        return found || !was_running;
      },
      deadline);
  return found;
}

std::string DaemonProcess::metrics_address() const {
  std::smatch match;
  const std::string text = log();
  return std::regex_search(text, match, std::regex("http://([0-9.:]+) serves")) ? match[1].str()
                                                                                : "";
}

std::string DaemonProcess::log() const { return ReadFile(log_path_); }

std::string DaemonProcess::output() const { return ReadFile(log_path_ + ".out"); }

}  // namespace simurgh::testing
