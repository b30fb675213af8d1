#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "base/mutex.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "rpc/message.h"
#include "services/runtime/command_line.h"
#include "services/runtime/http_endpoint.h"
#include "services/runtime/rpc_setup.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Flags of all daemons.
struct DaemonFlags {
  std::string config_path;             // --config FILE
  uint32_t index = 0;                  // --index N: the instance of the section.
  std::string config_place;            // --config-place; empty: the path of the file.
  std::vector<std::string> overrides;  // --set key=value, in order.
  bool check_config = false;           // --check-config
  std::string log_level = "info";      // --log-level; see InitLogging.
  std::string log_format = "text";     // --log-format; see InitLogging.
};

// Parts of --help.
struct ProgramUsage {
  std::string program;
  std::string summary;                      // One or two sentences.
  std::string arguments = "--config FILE";  // The required ones; may leave --config optional.

  // A program's own options, bound to its variables (boost::program_options::value(&variable)).
  boost::program_options::options_description own_options{"Options of this program"};
};

// Parses a command line. Returns nothing after --help, --version, --describe-config or
// --describe-metrics, which write to `out`.
//
// Errors: INVALID_ARGUMENT, one line, for an unknown or incomplete flag, a positional argument, a
// value out of range, or a missing --config.
StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out);

// The frame that all daemons share. A daemon's main is a description, a class and a call of
// RunDaemon, which does, in this order:
//
//   1  flags                    --help, --version: exit 0. An error: exit 2.
//   2  configuration, index     An error: exit 2. --check-config: checks, prints ok and exits 0.
//   3  logging, signals, open files, metrics, the HTTP endpoint (not ready: "starting")
//   4  start(context)           An error: exit 2 if INVALID_ARGUMENT or ALREADY_EXISTS (an address
//                               in use), 4 if ABORTED, else 3.
//   5  daemon->Run(stop)        Until it returns.
//   6  daemon->Drain(deadline)  Also after an error of Run (not ready: "stopping").
//   7  destroys the daemon, then the endpoint. Exit 0; daemon->CodeOf(error) after an error of Run;
//      3 after a call of context.Fail().
//
// An exception in steps 1 to 4, as when descriptors or threads run out: exit 3, with the limit.
// SIGTERM and SIGINT request the stop that Run waits for. A second one exits at once with 130.
// SIGHUP reads the configuration again and passes it to SetReload's function; after an error, which
// is logged, nothing has changed.

struct DaemonDescription {
  std::string role;           // Name in HELLO, logs and metrics: "embedding-ps".
  ProgramUsage usage;         // Texts of --help.
  std::string instances_key;  // "embedding_ps.instances".
  // Reads the configuration; called again for SIGHUP, on another thread. Null: LoadClusterConfig.
  std::function<StatusOr<ClusterConfig>(const DaemonFlags& flags)> load;
  // The section's instances; --index selects one.
  const std::vector<InstanceConfig>& (*instances)(const ClusterConfig& config) = nullptr;
  // Whether the daemon reads data files, plug-ins and vocabularies; otherwise they are not checked.
  InputFiles input_files = InputFiles::kIgnore;
  // Checks for --check-config what else the configuration needs. Errors: those of the start.
  std::function<Status(const ClusterConfig& config)> check;
  std::chrono::milliseconds drain_timeout{10'000};  // Supervisors commonly kill after 30 s.
  bool fails_if_stopped = false;  // A signal during the start ends with kStartAgain, not kOk.
};

// The environment of a daemon, which outlives it.
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

  const RpcOptions& rpc_options() const { return rpc_options_; }

  // Returns the HELLO of this process, without run and map version. The incarnation is random.
  rpc::Hello hello() const;

  // Makes /readyz answer 200, unless the daemon waits or the stop has begun.
  void SetReady();
  // Sets the reason why the daemon waits for something, for example "peers"; ok: it does not wait.
  // While there is a reason, /readyz answers 503 with it.
  void SetWaiting(const std::string& what, Status reason);
  // Returns one of the reasons of SetWaiting, or ok.
  Status waiting() const;
  // Makes /readyz answer 200 while problem() returns an empty text, otherwise 503 with the text.
  // Called until the stop begins, on any thread.
  void SetReadiness(std::function<std::string()> problem);
  Readiness readiness() const;

  // Logs the reason, requests the stop and makes the process exit 3.
  void Fail(Status reason);

  std::stop_source stop_source() const { return stop_; }

  // Applies the settings of a new configuration that may change at runtime. Called on the thread of
  // signals, never after BeginStop.
  using ReloadFunction = std::function<Status(const ClusterConfig& config)>;
  void SetReload(ReloadFunction reload);

  // Calls the reload function. Only the frame calls this.
  // Errors: FAILED_PRECONDITION without such a function, or if a setting changed on which all
  // daemons must agree; those of the function.
  Status Reload(const ClusterConfig& config);

  // Makes /readyz answer 503 "stopping" from now on. Only the frame calls this.
  void BeginStop();

  // Returns the first reason given to Fail, or ok.
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
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<std::string()> problem_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Status> waiting_ ABSL_GUARDED_BY(mutex_);  // See SetWaiting.
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

  // Works until it is done or a stop is requested. The default waits for the stop.
  virtual Status Run(std::stop_token stop);

  // Returns the exit code after an error of Run.
  virtual ExitCode CodeOf(const Status& /*failure*/) const { return ExitCode::kRuntimeFailure; }

  // Completes the work in progress, and cancels the rest at the deadline.
  virtual void Drain(std::chrono::steady_clock::time_point deadline) = 0;
};

using StartDaemon = std::function<StatusOr<std::unique_ptr<Daemon>>(DaemonContext& context)>;

// Reads the configuration and picks the instance: step 2 of RunDaemon.
// Errors: INVALID_ARGUMENT, NOT_FOUND.
StatusOr<std::unique_ptr<DaemonContext>> MakeContext(const DaemonDescription& description,
                                                     const DaemonFlags& flags);

// A daemon that has started, with its HTTP endpoint: steps 3 to 7 of RunDaemon, but for signals and
// reloads. A program that is no daemon can run one in a thread.
//
// Threads: one owner.
class StartedDaemon {
 public:
  // Lifetime: the context outlives the daemon. Errors: those of the endpoint and of `start`.
  static StatusOr<std::unique_ptr<StartedDaemon>> Start(const DaemonDescription& description,
                                                        DaemonContext& context,
                                                        const StartDaemon& start);

  // Works until the end, drains and stops the daemon. Call once. Returns the exit code; the context
  // has the error.
  ExitCode Run();

 private:
  StartedDaemon(DaemonContext& context, std::chrono::milliseconds drain_timeout)
      : drain_timeout_(drain_timeout), context_(context) {}

  const std::chrono::milliseconds drain_timeout_;
  DaemonContext& context_;
  std::unique_ptr<HttpEndpoint> endpoint_;
  std::unique_ptr<Daemon> daemon_;
};

// Runs a daemon from its flags to its end. Returns the exit code.
int RunDaemon(const DaemonDescription& description, int argc, const char* const* argv,
              const StartDaemon& start);

}  // namespace simurgh
