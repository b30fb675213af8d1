#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "rpc/message.h"
#include "services/runtime/flags.h"
#include "services/runtime/http_endpoint.h"
#include "services/runtime/rpc_options.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// The frame that all daemons share. A daemon's main is a description, a class and one call:
//
//   int main(int argc, char** argv) {
//     return RunDaemon(Description(), argc, argv, [](DaemonContext& context) { return
//     EmbeddingPs::Start(context); });
//   }
//
// What happens, in this order, and how it ends:
//
//   1  flags                    --help, --version: exit 0. Wrong: exit 2.
//   2  configuration, index     wrong: exit 2. --check-config: says so and exits 0.
//   3  logging, signals, open files, metrics, the HTTP endpoint (not ready: "starting")
//   4  start(context)           an error: exit 2 if INVALID_ARGUMENT or ALREADY_EXISTS (an address
//   in
//                               use), else 3.
//   5  daemon->Run(stop)        on the main thread, until it returns.
//   6  daemon->Drain(deadline)  always, whatever Run said (not ready: "stopping").
//   7  the daemon is destroyed, then the endpoint; exit 0, or 3 if Run, Drain or context.Fail()
//   named an error.
//
// SIGTERM and SIGINT request the stop that Run waits for; that is no error. A second one exits at
// once with 130. SIGHUP reads the configuration again and hands it to what the daemon gave to
// SetReload; an error changes nothing and is logged.

// What a daemon is, apart from what it does.
struct DaemonDescription {
  std::string role;     // "embedding-ps": in HELLO, logs and metrics.
  ProgramUsage usage;   // For --help, with the daemon's own options.
  std::string section;  // Of the configuration, "embedding_ps": for messages.
  // The instances of that section, of which --index picks one.
  const std::vector<InstanceConfig>& (*instances)(const ClusterConfig& config) = nullptr;
  std::chrono::milliseconds drain_timeout{10'000};  // Supervisors commonly kill after 30 s.
};

// What the frame hands to a daemon. Outlives it.
//
// Threads: all members may be called from any thread.
class DaemonContext {
 public:
  DaemonContext(std::string role, ClusterConfig config, RpcOptions rpc_options,
                InstanceConfig instance, uint32_t index);

  const ClusterConfig& config() const { return config_; }
  const InstanceConfig& instance() const { return instance_; }
  uint32_t index() const { return index_; }
  MetricRegistry& metrics() { return metrics_; }

  // For the daemon's clients and its server.
  const RpcOptions& rpc_options() const { return rpc_options_; }

  // What this process says when it meets a peer; run and map version are left to the daemon. The
  // instance epoch is drawn anew in every process.
  rpc::Hello hello() const;

  // Makes /readyz answer 200, unless the stop has begun.
  void SetReady();
  Readiness readiness() const;

  // Logs the reason, requests the stop and makes the process exit 3.
  void Fail(Status reason);

  std::stop_source stop_source() const { return stop_; }

  // What takes over a configuration that was read again, as far as it may change while the daemon
  // runs. Called on the thread of signals, never after BeginStop.
  using ReloadFunction = std::function<Status(const ClusterConfig& config)>;
  void SetReload(ReloadFunction reload);

  // The frame's: hands the configuration over.
  // Errors: FAILED_PRECONDITION when the daemon takes none, or when peers would have to agree on
  // the difference; of the daemon.
  Status Reload(const ClusterConfig& config);

  // The frame's: from now on not ready, "stopping".
  void BeginStop();

  // The first reason given to Fail, or ok.
  Status failure() const;

 private:
  const std::string role_;
  const ClusterConfig config_;
  const RpcOptions rpc_options_;
  const InstanceConfig instance_;
  const uint32_t index_;
  const uint64_t incarnation_;
  MetricRegistry metrics_;
  std::stop_source stop_;
  mutable Mutex mutex_;
  Readiness readiness_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  Mutex reload_mutex_;  // Held over a reload.
  ReloadFunction reload_ ABSL_GUARDED_BY(reload_mutex_);
};

// A daemon that has started: its sockets listen, its threads run.
//
// Threads: the frame calls everything on the main thread.
class Daemon {
 public:
  virtual ~Daemon() = default;

  // Works until it is done, or until a stop is requested, and returns soon after. Servers, whose
  // threads do the work, keep this one, which waits for the stop; a trainer trains here. Errors:
  // the process exits 3 with them.
  virtual Status Run(std::stop_token stop);

  // Ends in order what the daemon began, and cancels what is left at the deadline.
  virtual Status Drain(std::chrono::steady_clock::time_point deadline) = 0;
};

using StartDaemon = std::function<StatusOr<std::unique_ptr<Daemon>>(DaemonContext& context)>;

// Runs a daemon from its flags to its exit code.
int RunDaemon(const DaemonDescription& description, int argc, const char* const* argv,
              const StartDaemon& start);

}  // namespace simurgh
