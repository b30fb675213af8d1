#pragma once

#include <functional>
#include <stop_token>

#include <boost/asio/signal_set.hpp>

#include "services/runtime/io_thread.h"

namespace simurgh {

// SIGTERM and SIGINT request a stop; a second one ends the process at once with
// ExitCode::kInterrupted. SIGHUP calls `on_hangup`.
//
// The constructor blocks these signals in its thread and so in all threads that this one
// starts later: oneDNN's kernels use the stack pointer for other memory, which the frame of a
// signal handler would overwrite.
//
// Threads: construct before starting threads. Callbacks of the stop source and on_hangup run on the
// thread "signals".
class StopSignals {
 public:
  StopSignals(std::stop_source stop, std::function<void()> on_hangup);
  ~StopSignals() { thread_.Stop(); }  // Before the signal set is destroyed.

 private:
  void Wait();

  std::stop_source stop_;
  const std::function<void()> on_hangup_;
  IoThread thread_{"signals"};
  boost::asio::signal_set signals_;
};

}  // namespace simurgh
