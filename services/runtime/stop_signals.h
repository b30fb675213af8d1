#pragma once

#include <functional>
#include <stop_token>

#include <boost/asio/signal_set.hpp>

#include "services/runtime/io_thread.h"

namespace simurgh {

// From construction on SIGTERM and SIGINT request a stop; a second one leaves the process at once
// with ExitCode::kInterrupted. SIGHUP calls `on_hangup`. SIGPIPE is ignored: a peer that went away
// is an error of its write.
//
// The first three reach no thread but one of its own: the constructor blocks them in the thread
// that calls it, and so in all that this one starts later. A handler must not run on a thread that
// computes, as oneDNN's kernels use the stack pointer for other memory: the kernel would lay the
// handler's frame over it.
//
// Threads: constructed before those that it is to spare. What the stop source calls, and on_hangup,
// run on the thread "signals".
class StopSignals {
 public:
  StopSignals(std::stop_source stop, std::function<void()> on_hangup);
  ~StopSignals() { thread_.Stop(); }  // Before the signal set that it waits for.

 private:
  void Wait();

  std::stop_source stop_;
  const std::function<void()> on_hangup_;
  IoThread thread_{"signals"};
  boost::asio::signal_set signals_;
};

}  // namespace simurgh
