#include "services/runtime/stop_signals.h"

#include <csignal>
#include <cstdlib>
#include <utility>

#include "services/runtime/exit_code.h"
#include "simurgh/base/log.h"

namespace simurgh {
namespace {

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
    if (stop_.stop_requested()) {
      spdlog::warn("{} while stopping: exiting at once", name);
      std::_Exit(static_cast<int>(ExitCode::kInterrupted));
    }
    spdlog::info("{}: stopping", name);
    stop_.request_stop();
    Wait();
  });
}

}  // namespace simurgh
