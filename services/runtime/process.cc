#include "services/runtime/process.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <semaphore>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/multiple_exceptions.hpp>
#include <boost/system/system_error.hpp>

#include "base/log.h"
#include "base/version.h"
#include "services/runtime/command_line.h"
#include "services/runtime/machine_limits.h"

namespace simurgh {
namespace {

const GaugeFamily kBuildInfo("simurgh_build_info", "Always 1; the labels name the program.",
                             {"service", "version"});
const GaugeFamily kReady("simurgh_process_ready", "1 if /readyz answers 200, else 0.");
const GaugeFamily kResidentBytes("simurgh_process_resident_bytes", "Resident memory.");
const GaugeFamily kTimeSeconds("simurgh_process_time_seconds",
                               "Unix time of the machine, to compare clocks.");
const GaugeFamily kUptimeSeconds("simurgh_process_uptime_seconds",
                                 "Time since the process started.");

constexpr int kHandled[] = {SIGTERM, SIGINT, SIGHUP};

// how: SIG_BLOCK or SIG_UNBLOCK. Applies to the calling thread and those it starts later.
void Mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kHandled) sigaddset(&set, signal);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

StopSignals::StopSignals(std::stop_source stop, std::function<void()> on_hangup)
    : stop_(std::move(stop)), on_hangup_(std::move(on_hangup)), signals_(thread_.executor()) {
  for (const int signal : kHandled) signals_.add(signal);
  thread_.RunAndWait([] { Mask(SIG_UNBLOCK); });
  Mask(SIG_BLOCK);
  Wait();
}

void StopSignals::Wait() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      on_hangup_();
      return Wait();
    }
    const char* name = number == SIGTERM ? "SIGTERM" : "SIGINT";
    if (std::exchange(is_signalled_, true)) {
      spdlog::warn("{} while stopping: exiting at once", name);
      std::_Exit(static_cast<int>(ExitCode::kInterrupted));
    }
    spdlog::info("{}: stopping", name);
    stop_.request_stop();
    Wait();
  });
}

namespace {

// Source: proc(5), /proc/pid/statm: total and resident pages.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// File descriptors for connections to other daemons, data, metrics and logs.
constexpr uint64_t kOtherFiles = 128;

}  // namespace

bool AwaitStop(const std::stop_token& stop, std::chrono::milliseconds patience) {
  std::binary_semaphore stopped(0);
  const std::stop_callback wake(stop, [&stopped] { stopped.release(); });
  if (patience < std::chrono::milliseconds::max()) return stopped.try_acquire_for(patience);
  stopped.acquire();
  return true;
}

void AddProcessMetrics(MetricRegistry& registry, const std::string& role,
                       std::function<Readiness()> readiness) {
  registry.Get(kBuildInfo, {role, Version()}).Set(1);
  registry.AddComputedGauge(
      kReady, {}, [readiness = std::move(readiness)] { return readiness().ready ? 1 : 0; });
  registry.AddComputedGauge(kResidentBytes, {}, ResidentBytes);
  registry.AddComputedGauge(kTimeSeconds, {}, [] {
    const auto now = std::chrono::system_clock::now();
    return std::chrono::duration<double>(now.time_since_epoch()).count();
  });
  registry.AddComputedGauge(kUptimeSeconds, {}, [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}

namespace {

const char* program_name = nullptr;
std::terminate_handler other_handler = nullptr;

[[noreturn]] void EndAfter(const std::exception& error) {
  std::_Exit(static_cast<int>(ReportException(program_name, error)));
}

[[noreturn]] void OnTerminate() {
  try {
    const std::exception_ptr error = std::current_exception();
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const boost::asio::multiple_exceptions& all) {
    try {
      std::rethrow_exception(all.first_exception());
    } catch (const std::exception& first) {
      EndAfter(first);
    }
  } catch (const std::bad_alloc& error) {
    EndAfter(error);
  } catch (const boost::system::system_error& error) {
    EndAfter(error);
  } catch (const std::system_error& error) {
    EndAfter(error);
  } catch (...) {  // Other exceptions are programming errors.
  }
  other_handler();
  std::abort();
}

}  // namespace

void ReportShortages(const char* program) {
  program_name = program;
  const std::terminate_handler before = std::set_terminate(OnTerminate);
  if (before != OnTerminate) other_handler = before;
}

Status RaiseOpenFiles(const char* key, uint32_t max_connections) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) raised = limit;
  const uint64_t needed = max_connections + kOtherFiles;
  if (raised.rlim_cur >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      key, ": ", max_connections, " connections need ", needed, " open files, but the limit is ",
      raised.rlim_cur, "; raise the hard limit (ulimit -Hn, LimitNOFILE of a systemd unit)"));
}

ProcessFrame::ProcessFrame(std::stop_source stop, const char* connections_key,
                           uint32_t max_connections)
    : signals_(std::move(stop), [this] { Reload(); }) {
  const Status files = RaiseOpenFiles(connections_key, max_connections);
  if (!files.ok()) spdlog::warn("{}", std::string(files.message()));
}

void ProcessFrame::SetReload(std::function<StatusOr<std::string>()> reload) {
  MutexLock lock(mutex_);
  reload_ = std::move(reload);
}

void ProcessFrame::Reload() {
  MutexLock lock(mutex_);
  if (!reload_) return;
  const StatusOr<std::string> read = reload_();
  if (read.ok()) {
    spdlog::info("SIGHUP: reloaded {}", *read);
  } else {
    spdlog::error("SIGHUP: kept the running configuration: {}",
                  std::string(read.status().message()));
  }
}

}  // namespace simurgh
