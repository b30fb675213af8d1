#include "services/runtime/daemon.h"

#include <csignal>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/cpu_isa.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "config/cluster_config.h"
#include "services/runtime/command_line.h"
#include "services/runtime/listener.h"
#include "services/runtime/machine_limits.h"
#include "services/runtime/process.h"
#include "telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kExitCodes[] =
    R"(Exit codes:
  0    done, or stopped by SIGTERM or SIGINT
  2    bad flags or configuration
  3    failed while running; the log has the reason
  4    lost another process; start this one again, it continues from the last checkpoint
  130  a second signal interrupted the shutdown
)";

}  // namespace

StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out) {
  namespace po = boost::program_options;
  DaemonFlags flags;
  std::string index;
  bool describes = false;
  bool describes_metrics = false;
  po::options_description options("Options");
  options.add_options()("config", po::value(&flags.config_path)->value_name("FILE"),
                        "read this YAML file, the same for all daemons")(
      "config-place", po::value(&flags.config_place)->value_name("PATH"),
      "take relative paths in the file, and its name, as if it were at PATH")(
      "index", po::value(&index)->value_name("N")->default_value("0"),
      "run instance N of this daemon's section, from 0")(
      "set", po::value(&flags.overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of the file, as in --set training.staleness=4; may be repeated")(
      "check-config", po::bool_switch(&flags.check_config),
      "check flags and file, print ok or the errors, and exit")(
      "log-level", po::value(&flags.log_level)->value_name("LEVEL")->default_value("info"),
      "log from this level: trace, debug, info, warn, error or off")(
      "log-format", po::value(&flags.log_format)->value_name("FORMAT")->default_value("text"),
      "log lines of text, or of json")("help", "print this help and exit")(
      "describe-config", po::bool_switch(&describes),
      "print the reference of all configuration keys as Markdown and exit")(
      "describe-metrics", po::bool_switch(&describes_metrics),
      "print names, types, labels and meanings of all metrics, with tabs between them, and exit")(
      "version", "print the version and exit");
  if (!usage.own_options.options().empty()) options.add(usage.own_options);
  const std::string text =
      absl::StrCat(usage.program, ": ", usage.summary, "\n\nUsage: ", usage.program, " ",
                   usage.arguments, " [options]\n\n");
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs,
      ParseCommandLine(argc, argv, {usage.program.c_str(), text.c_str(), kExitCodes}, options,
                       out));
  if (!runs) return std::nullopt;
  if (describes) {
    out << DescribeConfig();
    return std::nullopt;
  }
  if (describes_metrics) {
    out << MetricFamily::DescribeAll();
    return std::nullopt;
  }
  if (flags.config_path.empty() && usage.arguments.starts_with("--config")) {
    return OptionProblem("--config FILE is missing");
  }
  if (!absl::SimpleAtoi(index, &flags.index)) {
    return OptionProblem(absl::StrCat("--index: '", index, "' is not an integer from 0 to ",
                                      std::numeric_limits<uint32_t>::max()));
  }
  return flags;
}

namespace {

// Prints an error before logging starts, or one that a person at a terminal must see.
ExitCode Refuse(const ProgramUsage& usage, const Status& status) {
  std::cerr << usage.program << ": error: " << status.message() << "\n";
  return ExitCode::kBadConfiguration;
}

// Logs the result of a start that failed or was stopped. Returns the exit code; a port in use
// counts as an error of the configuration.
ExitCode ReportStart(const DaemonDescription& description, const Status& status) {
  if (absl::IsCancelled(status)) {
    if (description.fails_if_stopped) {
      spdlog::info("exiting: code=4: {}", std::string(status.message()));
      return ExitCode::kStartAgain;
    }
    spdlog::info("exiting: code=0: {}", std::string(status.message()));
    return ExitCode::kOk;
  }
  spdlog::error("{}", status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  if (absl::IsAborted(status)) return ExitCode::kStartAgain;
  const bool configuration = absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status);
  return configuration ? ExitCode::kBadConfiguration : ExitCode::kRuntimeFailure;
}

StatusOr<InstanceConfig> PickInstance(const DaemonDescription& description,
                                      const ClusterConfig& config, const DaemonFlags& flags) {
  const std::vector<InstanceConfig>& instances = description.instances(config);
  if (flags.index < instances.size()) return instances[flags.index];
  if (instances.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.config_path, " has no entry in ", description.instances_key,
                     "; add one for this process, in the file or with --set"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--index ", flags.index, ": ", flags.config_path, " has ", instances.size(),
                   instances.size() == 1 ? " entry in " : " entries in ", description.instances_key,
                   "; add one or choose a smaller index, from 0"));
}

StatusOr<std::unique_ptr<HttpEndpoint>> StartEndpoint(DaemonContext& context) {
  const std::string& address = context.instance().metrics_listens_at();
  if (address.empty()) return nullptr;
  SIMURGH_RETURN_IF_ERROR(AwaitOwnHost(context, context.instance().metrics_listen_key, address));
  return HttpEndpoint::Start({.address = address,
                              .key = context.instance().metrics_listen_key,
                              .process = absl::StrCat(context.hello().role, "/", context.index()),
                              .configuration = ClusterAgreement(context.config()),
                              .is_public = context.config().rpc.security == Security::kInsecure},
                             context.metrics(), [&context] { return context.readiness(); });
}

StatusOr<ClusterConfig> Load(const DaemonDescription& description, const DaemonFlags& flags) {
  if (description.load) return description.load(flags);
  return LoadClusterConfig(flags.config_path, flags.overrides, description.input_files,
                           flags.config_place);
}

// Returns what it has read.
StatusOr<std::string> Reload(DaemonContext& context, const DaemonDescription& description,
                             const DaemonFlags& flags) {
  if (!flags.config_path.empty() && !std::filesystem::is_regular_file(flags.config_path)) {
    return absl::InvalidArgumentError(absl::StrCat(flags.config_path, " is not a regular file"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, Load(description, flags));
  SIMURGH_RETURN_IF_ERROR(context.Reload(config));
  return flags.config_path;
}

ExitCode RunStarted(const DaemonDescription& description, const DaemonFlags& flags,
                    DaemonContext& context, const StartDaemon& start) {
  ProcessFrame frame(context.stop_source(), "rpc.max_connections",
                     context.rpc_options().server.max_connections);
  frame.SetReload([&] { return Reload(context, description, flags); });
  const auto daemon = StartedDaemon::Start(description, context, start);
  return daemon.ok() ? (*daemon)->Run() : ReportStart(description, daemon.status());
}

ExitCode RunToCode(const DaemonDescription& description, int argc, const char* const* argv,
                   const StartDaemon& start) {
  const auto flags = ParseFlags(description.usage, argc, argv, std::cout);
  if (!flags.ok()) return Refuse(description.usage, flags.status());
  if (!flags->has_value()) return ExitCode::kOk;
  const DaemonFlags& given = **flags;
  const std::string service = absl::StrCat(description.role, "/", given.index);
  if (const Status status = InitLogging(service, given.log_level, given.log_format); !status.ok()) {
    return Refuse(description.usage, status);
  }
  StatusOr<std::unique_ptr<DaemonContext>> context = MakeContext(description, given);
  if (!context.ok()) return Refuse(description.usage, context.status());
  const ClusterConfig& config = (*context)->config();
  if (given.check_config) {
    const Status status = description.check ? description.check(config) : absl::OkStatus();
    if (!status.ok()) return Refuse(description.usage, status);
    if (description.load) {
      std::cout << "ok\n";
      return ExitCode::kOk;
    }
    std::cout << "ok: " << given.config_path << " describes cluster '" << config.name
              << "': " << config.embedding_ps.instances.size() << " embedding-ps, "
              << config.embedding_worker.instances.size() << " embedding-worker, "
              << config.nn_worker.instances.size() << " nn-worker, "
              << config.loaders.instances.size()
              << (config.loaders.instances.size() == 1 ? " loader\n" : " loaders\n");
    return ExitCode::kOk;
  }
  spdlog::info("starting: index={} version={} cluster={} config={}", given.index, Version(),
               config.name, given.config_path);
  return RunStarted(description, given, **context, start);
}

// Reports exceptions. Asio and threads throw when the system refuses a descriptor or a thread.
ExitCode RunCatching(const DaemonDescription& description, int argc, const char* const* argv,
                     const StartDaemon& start) {
  try {
    return RunToCode(description, argc, argv, start);
  } catch (const std::exception& error) {
    return ReportException(description.usage.program.c_str(), error);
  }
}

}  // namespace

StatusOr<std::unique_ptr<DaemonContext>> MakeContext(const DaemonDescription& description,
                                                     const DaemonFlags& flags) {
  SIMURGH_ASSIGN_OR_RETURN(ClusterConfig config, Load(description, flags));
  SIMURGH_ASSIGN_OR_RETURN(InstanceConfig instance, PickInstance(description, config, flags));
  SIMURGH_ASSIGN_OR_RETURN(RpcOptions rpc_options, MakeRpcOptions(config.rpc));
  return std::make_unique<DaemonContext>(description.role, std::move(config),
                                         std::move(rpc_options), std::move(instance), flags.index);
}

StatusOr<std::unique_ptr<StartedDaemon>> StartedDaemon::Start(const DaemonDescription& description,
                                                              DaemonContext& context,
                                                              const StartDaemon& start) {
  std::unique_ptr<StartedDaemon> started(new StartedDaemon(context, description.drain_timeout));
  AddProcessMetrics(context.metrics(), description.role,
                    [&context] { return context.readiness(); });
  SIMURGH_ASSIGN_OR_RETURN(started->endpoint_, StartEndpoint(context));
  SIMURGH_ASSIGN_OR_RETURN(started->daemon_, start(context));
  return started;
}

ExitCode StartedDaemon::Run() {
  ExitCode code = ExitCode::kRuntimeFailure;
  if (const Status status = daemon_->Run(context_.stop_source().get_token()); !status.ok()) {
    code = daemon_->CodeOf(status);
    context_.Fail(status);
  }
  context_.BeginStop();
  daemon_->Drain(std::chrono::steady_clock::now() + drain_timeout_);
  daemon_.reset();
  if (!context_.failure().ok()) return code;
  spdlog::info("exiting: code=0");
  return ExitCode::kOk;
}

Status Daemon::Run(std::stop_token stop) {
  AwaitStop(stop);
  return absl::OkStatus();
}

int RunDaemon(const DaemonDescription& description, int argc, const char* const* argv,
              const StartDaemon& start) {
  LimitSimdFromEnvironment();
  ReportShortages(description.usage.program.c_str());
  // Without these signals, writes to a closed connection or beyond the limit of file sizes fail.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  ExitCode code = RunCatching(description, argc, argv, start);
  if (const Status output = FlushOutput(); !output.ok()) {
    std::cerr << description.usage.program << ": error: " << output.message() << "\n";
    if (code == ExitCode::kOk) code = ExitCode::kRuntimeFailure;
  }
  return static_cast<int>(code);
}

DaemonContext::DaemonContext(std::string role, ClusterConfig config, RpcOptions rpc_options,
                             InstanceConfig instance, uint32_t index)
    : role_(std::move(role)),
      config_(std::move(config)),
      rpc_options_(std::move(rpc_options)),
      instance_(std::move(instance)),
      index_(index),
      // An incarnation is never 0.
      incarnation_(uint64_t{std::random_device()()} << 32 | std::random_device()() | 1) {}

rpc::Hello DaemonContext::hello() const {
  rpc::Hello hello;
  hello.cluster = config_.name;
  hello.role = role_;
  hello.index = index_;
  hello.incarnation = incarnation_;
  hello.configuration = ClusterAgreement(config_);
  return hello;
}

void DaemonContext::SetReady() {
  MutexLock lock(mutex_);
  started_ = true;
}

void DaemonContext::SetWaiting(const std::string& what, Status reason) {
  MutexLock lock(mutex_);
  if (reason.ok()) {
    waiting_.erase(what);
  } else {
    waiting_[what] = std::move(reason);
  }
}

void DaemonContext::SetReadiness(std::function<std::string()> problem) {
  MutexLock lock(mutex_);
  problem_ = std::move(problem);
}

Status DaemonContext::waiting() const {
  MutexLock lock(mutex_);
  return waiting_.empty() ? absl::OkStatus() : waiting_.begin()->second;
}

Readiness DaemonContext::readiness() const {
  MutexLock lock(mutex_);
  if (stopping_) return {false, "stopping"};
  if (!waiting_.empty()) return {false, std::string(waiting_.begin()->second.message())};
  if (problem_) {
    std::string problem = problem_();
    const bool ready = problem.empty();
    return {ready, std::move(problem)};
  }
  if (!started_) return {false, "starting"};
  return {true, ""};
}

void DaemonContext::Fail(Status reason) {
  spdlog::error("failed: {}", reason.ToString(absl::StatusToStringMode::kWithNoExtraData));
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(reason);
  }
  stop_.request_stop();
}

void DaemonContext::SetReload(ReloadFunction reload) {
  MutexLock lock(reload_mutex_);
  reload_ = std::move(reload);
}

Status DaemonContext::Reload(const ClusterConfig& config) {
  MutexLock lock(reload_mutex_);
  if (!reload_) {
    return absl::FailedPreconditionError(
        absl::StrCat(role_, " does not support reloading; restart it"));
  }
  const std::string difference =
      SettingsDifference(ClusterAgreement(config), "new", ClusterAgreement(config_), "running");
  if (!difference.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("all daemons must agree on ", difference,
                                                      "; restart the cluster, or undo the change"));
  }
  return reload_(config);
}

void DaemonContext::BeginStop() {
  SetReload(nullptr);
  MutexLock lock(mutex_);
  stopping_ = true;
  problem_ = nullptr;
}

Status DaemonContext::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

}  // namespace simurgh
