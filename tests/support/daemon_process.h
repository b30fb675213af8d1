#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace simurgh::testing {

// A child process whose stdout and stderr go to files. The destructor kills it if it still runs.
//
// Threads: one owner.
class DaemonProcess {
 public:
  // Starts build/<preset>/bin/<program>. log: path of a new file for stderr; log + ".out" receives
  // stdout.
  DaemonProcess(const std::string& program, const std::vector<std::string>& arguments,
                const std::string& log);
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;
  ~DaemonProcess();

  void Signal(int signal) const;

  // Waits for its end. The exit code, 128 + signal for a killed process, nothing when it still runs
  // at the deadline.
  std::optional<int> Wait(std::chrono::seconds deadline);

  bool running();

  // Waits until the log holds `text`. False when the process ended or the deadline passed first.
  bool WaitForLog(const std::string& text, std::chrono::seconds deadline);

  // "host:port" of its metrics, from its log; empty until it is logged.
  std::string metrics_address() const;

  std::string log() const;
  std::string output() const;

 private:
  const std::string log_path_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace simurgh::testing
