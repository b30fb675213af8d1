#include "services/runtime/stop_signals.h"

#include <csignal>
#include <cstdlib>
#include <utility>

#include <spdlog/spdlog.h>

#include "services/runtime/exit_code.h"

namespace simurgh {

StopSignals::StopSignals(std::stop_source stop, std::function<void()> on_hangup)
    : stop_(std::move(stop)),
      on_hangup_(std::move(on_hangup)),
      signals_(thread_.executor(), SIGTERM, SIGINT, SIGHUP) {
  std::signal(SIGPIPE, SIG_IGN);
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
      spdlog::warn("{} while stopping: leaving at once", name);
      std::_Exit(static_cast<int>(ExitCode::kInterrupted));
    }
    spdlog::info("{}: stopping", name);
    stop_.request_stop();
    Wait();
  });
}

}  // namespace simurgh
