#include "services/runtime/stop_signals.h"

#include <csignal>
#include <cstdlib>

#include <spdlog/spdlog.h>

#include "services/runtime/exit_code.h"

namespace simurgh {

StopSignals::StopSignals(std::stop_source stop)
    : stop_(std::move(stop)), signals_(thread_.executor(), SIGTERM, SIGINT) {
  std::signal(SIGPIPE, SIG_IGN);
  Wait();
}

void StopSignals::Wait() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
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
