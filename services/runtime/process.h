#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include <boost/asio/signal_set.hpp>

#include "base/mutex.h"
#include "base/status.h"
#include "services/runtime/http_endpoint.h"
#include "services/runtime/io_thread.h"
#include "telemetry/metrics.h"

namespace simurgh {

// SIGTERM and SIGINT request a stop; a second one ends the process at once with
// ExitCode::kInterrupted. A stop that a call requests is no signal: the first signal after it does
// not end the process. SIGHUP calls `on_hangup`.
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
  ~StopSignals() { thread_.Stop(); }  // Ends the thread before the signal set is destroyed.

 private:
  void Wait();

  std::stop_source stop_;
  const std::function<void()> on_hangup_;
  bool is_signalled_ = false;  // Used on the thread of signals only.
  IoThread thread_{"signals"};
  boost::asio::signal_set signals_;
};

// Raises the soft limit of open files, usually 1,024, to the hard limit.
// key: the configuration key of `max_connections`.
// Errors: RESOURCE_EXHAUSTED if the hard limit is too low for `max_connections`, with the remedy.
Status RaiseOpenFiles(const char* key, uint32_t max_connections);

// The frame of a process that works until a stop: signals, the limit of open files, reloads.
//
// Threads: construct before starting threads, see StopSignals. SetReload: any.
class ProcessFrame {
 public:
  // connections_key: the configuration key of max_connections.
  ProcessFrame(std::stop_source stop, const char* connections_key, uint32_t max_connections);

  // SIGHUP calls `reload` on the thread of signals. It returns what it has read, for the log; after
  // an error, which is logged, nothing has changed. Null, as at the start: SIGHUP is ignored. After
  // the return, the function of before is not running.
  void SetReload(std::function<StatusOr<std::string>()> reload);

 private:
  void Reload();

  Mutex mutex_;  // Held over a reload.
  std::function<StatusOr<std::string>()> reload_ ABSL_GUARDED_BY(mutex_);
  const StopSignals signals_;
};

// Makes an exception that ends a thread, because the system refuses memory or a thread, end the
// process with ReportException() and its code, not by SIGABRT. program: its name, which must
// outlive the process.
void ReportShortages(const char* program);

// Waits for a stop, for `patience` at most. Returns whether there was one.
bool AwaitStop(const std::stop_token& stop,
               std::chrono::milliseconds patience = std::chrono::milliseconds::max());

// Adds the version, resident memory, uptime, clock and readiness of the process. role: label
// `service`. readiness: as for HttpEndpoint::Start.
void AddProcessMetrics(MetricRegistry& registry, const std::string& role,
                       std::function<Readiness()> readiness);

}  // namespace simurgh
