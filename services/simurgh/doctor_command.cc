#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <netdb.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/text.h"
#include "base/version.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "model/file_system.h"
#include "model/model_directory.h"
#include "rpc/address.h"
#include "services/runtime/command_line.h"
#include "services/runtime/listener.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/scrape.h"
#include "table/cold_disk.h"

namespace simurgh {
namespace {

constexpr char kDoctorNotes[] =
    R"(Checks this machine: huge pages, limits, memory. With CONFIG also the file, its names, ports,
folders and memory, and the daemons: which run, versions, configurations, readiness, clocks,
checkpoints, skipped data, memory and skew. Each line is ok, warn or error; what follows a
semicolon is the remedy. Starts and changes nothing.

Exit codes:
  0  no error
  2  bad arguments
  3  an error was found
)";

constexpr std::chrono::seconds kTimeout{3};
constexpr double kMostSkew = 1;  // Seconds.
// config/monitoring/alerts.yml has the same limits.
constexpr double kNearBudget = 0.85;
constexpr double kCheckpointIntervals = 3;
constexpr double kManyRowsSkipped = 0.001;  // Share of the samples.

enum class Level { kOk, kWarn, kError };

struct Finding {
  Level level;
  std::string text;
};

const char* NameOf(Level level) {
  constexpr const char* kNames[] = {"ok", "warn", "error"};
  return kNames[static_cast<size_t>(level)];
}

class Doctor {
 public:
  void CheckMachine();
  void CheckCluster(const std::string& path, const std::vector<std::string>& overrides);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void Ok(std::string text) { findings_.push_back({Level::kOk, std::move(text)}); }
  void Warn(std::string text) { findings_.push_back({Level::kWarn, std::move(text)}); }
  void Error(std::string text) { findings_.push_back({Level::kError, std::move(text)}); }

  std::optional<ClusterConfig> Load(const std::string& path,
                                    const std::vector<std::string>& overrides);
  void CheckFolder(const CheckpointConfig& config);
  void CheckMemory(const ClusterConfig& config);
  void CheckColdDirectory(const ClusterConfig& config);
  // Checks the daemons' names and ports, and those that run. agreement: ClusterAgreement of CONFIG.
  void CheckDaemons(const std::vector<ListedDaemon>& daemons, const std::string& agreement);
  // Returns false for a name that does not resolve.
  bool CheckName(const std::string& where, const std::string& host);
  void CheckPort(const std::string& where, const rpc::Address& address);
  // others_run: other daemons run.
  void CheckStopped(const ListedDaemon& daemon, bool others_run);
  // Returns the metrics, or nothing if this is another program.
  std::optional<MetricsText> CheckRunning(const std::string& name, const std::string& address,
                                          const HttpAnswer& metrics,
                                          const StatusOr<HttpAnswer>& ready);
  void CheckClock(const std::string& name, const MetricsText& metrics, double before, double after);
  void CheckSaves(const std::string& name, const MetricsText& metrics);
  void CheckData(const std::string& name, const MetricsText& metrics);
  // Tells how many rows are read without the gradients of batches in flight.
  void CheckStaleness(const std::string& name, const MetricsText& metrics);
  void CheckBudget(const std::string& name, const MetricsText& metrics);
  void CheckColdRows(const std::string& name, const MetricsText& metrics);
  // rows: number of rows per server's name.
  void CheckSkew(const std::vector<std::pair<std::string, double>>& rows);

  std::vector<Finding> findings_;
  std::set<std::string> resolved_;
  uint64_t local_servers_ = 0;
  uint32_t staleness_ = 1;  // 1 in other modes than hybrid.
};

double Now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// Returns the value of a line of /proc/meminfo in bytes.
uint64_t MemoryInfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(": "), absl::SkipEmpty());
    uint64_t kib = 0;
    if (words.size() > 1 && words[0] == name && absl::SimpleAtoi(words[1], &kib)) return kib << 10;
  }
  return 0;
}

void Doctor::CheckMachine() {
  constexpr char kHugePages[] = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::ifstream file(kHugePages);
  std::string setting;
  if (!std::getline(file, setting)) {
    Warn(absl::StrCat("huge pages: ", kHugePages,
                      " cannot be read; servers are slower without huge pages"));
  } else if (setting.find("[never]") != setting.npos) {
    Warn(absl::StrCat("huge pages are off, which slows servers; echo madvise > ", kHugePages));
  } else {
    Ok(absl::StrCat("huge pages: ", setting));
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kFewFiles = 4'096;
  if (files.rlim_max < kFewFiles) {
    Warn(absl::StrCat("a process may open ", files.rlim_max,
                      " files; raise the hard limit: ulimit -Hn, or LimitNOFILE of a unit"));
  } else {
    Ok(absl::StrCat("a process may open ", files.rlim_max, " files"));
  }
  Ok(absl::StrCat("memory: ", BytesText(MemoryInfo("MemAvailable")), " of ",
                  BytesText(MemoryInfo("MemTotal")), " are available"));
}

std::optional<ClusterConfig> Doctor::Load(const std::string& path,
                                          const std::vector<std::string>& overrides) {
  StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides, InputFiles::kCheck);
  if (config.ok()) {
    Ok(absl::StrCat(path, " is valid, and its data files can be read"));
    return *std::move(config);
  }
  const Status first = config.status();
  config = LoadClusterConfig(path, overrides, InputFiles::kIgnore);
  for (const absl::string_view line : absl::StrSplit(first.message(), '\n')) {
    // Only nn-workers and loaders read the files.
    config.ok() ? Warn(absl::StrCat(line, "; needed where nn-workers or loaders run"))
                : Error(std::string(line));
  }
  if (!config.ok()) return std::nullopt;
  return *std::move(config);
}

void Doctor::CheckFolder(const CheckpointConfig& config) {
  if (config.directory.empty()) {
    return Warn("checkpoint.directory is not set: what is trained is lost at the end; set it");
  }
  if (IsUri(config.directory)) {
    const Status works = CheckBucket(config.directory);
    if (!works.ok()) {
      return Error(absl::StrCat("checkpoint.directory: ", std::string(works.message())));
    }
    return Ok(absl::StrCat("checkpoint.directory: ", config.directory,
                           ": objects can be listed, written, replaced and removed"));
  }
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(config.directory, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Error(absl::StrCat("checkpoint.directory: ", folder.string(), ": ", std::strerror(errno),
                              "; choose a folder that you may write to"));
  }
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) {
    return Warn(absl::StrCat("checkpoint.directory: ", folder.string(), ": ", error.message()));
  }
  uint64_t last = 0;
  if (std::filesystem::exists(config.directory, error)) {
    const StatusOr<ModelDirectory::Newest> newest = ModelDirectory(config.directory).Latest();
    if (newest.ok()) {
      for (const ModelFile& file : newest->checkpoint.manifest.files) last += file.bytes;
    }
  }
  const std::string text =
      absl::StrCat("checkpoint.directory: ", BytesText(space.available), " are free",
                   last == 0 ? "" : ", the last checkpoint has ", last == 0 ? "" : BytesText(last));
  // A new checkpoint is written before an old one is removed.
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  space.available < std::max(2 * last, kLeast)
      ? Error(text + "; make room, or lower checkpoint.keep")
      : Ok(text);
}

void Doctor::CheckMemory(const ClusterConfig& config) {
  const uint64_t budget = config.embedding_ps.memory_budget * local_servers_;
  const uint64_t memory = MemoryInfo("MemTotal");
  if (local_servers_ == 0 || budget == 0) return;
  const std::string text = absl::StrCat(local_servers_, " servers of this machine may use ",
                                        BytesText(budget), " of its ", BytesText(memory));
  budget > memory ? Error(text + "; lower embedding_ps.memory_budget, or move servers") : Ok(text);
}

void Doctor::CheckColdDirectory(const ClusterConfig& config) {
  const std::string& folder = config.embedding_ps.cold_directory;
  if (local_servers_ == 0 || folder.empty()) return;
  const StatusOr<ColdDiskSpeed> speed = MeasureColdDisk(folder);
  if (!speed.ok()) {
    return Error(
        absl::StrCat("embedding_ps.cold_directory: ", std::string(speed.status().message()),
                     absl::IsResourceExhausted(speed.status())
                         ? "; make room there"
                         : "; choose a folder on an SSD that you may write to"));
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  const std::string text = absl::StrFormat(
      "embedding_ps.cold_directory: %s are free, %.0f rows a second by %s",
      BytesText(error ? 0 : space.available), speed->reads_per_second, speed->method);
  // A disk that turns has some hundreds.
  constexpr double kFew = 5'000;
  if (speed->reads_per_second < kFew) {
    return Warn(text + ": training will wait for the disk; choose a folder on an SSD");
  }
  Ok(text);
}

bool IsOfThisMachine(const std::string& text) {
  const StatusOr<rpc::Address> address = rpc::ParseAddress(text);
  if (!address.ok()) return false;
  if (address->has_path()) return true;
  const Addresses found = Resolve(address->host, 0);
  return found != nullptr && TryBind(found) == 0;
}

bool Doctor::CheckName(const std::string& where, const std::string& host) {
  if (resolved_.contains(host)) return true;
  int code = 0;
  if (Resolve(host, 0, &code) == nullptr) {
    Error(absl::StrCat(where, ": the name '", host, "' does not resolve: ", ::gai_strerror(code),
                       "; correct it, or add it to DNS or /etc/hosts"));
    return false;
  }
  resolved_.insert(host);
  return true;
}

void Doctor::CheckPort(const std::string& where, const rpc::Address& address) {
  if (address.has_path() || address.port == 0) return;
  const Addresses found = Resolve(address.host, address.port);
  if (found == nullptr) return;
  const std::string text = absl::StrCat(where, ": ", rpc::ToString(address));
  const int error = TryBind(found);
  if (error == 0) return Ok(text + " is free");
  Error(absl::StrCat(text, ": ", std::strerror(error),
                     error == EADDRINUSE ? "; stop the program that has the port (ss -ltnp), or "
                                           "choose another one"
                                         : "; choose another port"));
}

std::optional<MetricsText> Doctor::CheckRunning(const std::string& name, const std::string& address,
                                                const HttpAnswer& metrics,
                                                const StatusOr<HttpAnswer>& ready) {
  StatusOr<MetricsText> values = MetricsText::Parse(metrics.body);
  const auto version = values.ok() ? values->Label("version", "simurgh_build_info") : std::nullopt;
  if (metrics.code != 200 || !version) {
    Error(absl::StrCat(name, ": another program answers at ", address,
                       "; stop it, or choose another port"));
    return std::nullopt;
  }
  if (*version != Version()) {
    Error(absl::StrCat(name, ": its version is ", *version, ", and this program's is ", Version(),
                       "; run one version on all machines"));
  }
  if (!ready.ok()) {
    Error(absl::StrCat(name, ": /readyz does not answer: ", ready.status().message(),
                       "; read its log, and start it again"));
  } else if (ready->code != 200) {
    const absl::string_view reason = absl::StripAsciiWhitespace(ready->body);
    Error(absl::StrCat(name, ": not ready: ", reason,
                       absl::StartsWith(reason, "waiting for ")
                           ? "; start that daemon, or correct its address in the file of this one"
                           : ""));
  } else {
    Ok(absl::StrCat(name, ": ready"));
  }
  return *std::move(values);
}

void Doctor::CheckClock(const std::string& name, const MetricsText& metrics, double before,
                        double after) {
  const std::optional<double> time = metrics.Sum("simurgh_process_time_seconds");
  if (!time) return;
  const double skew = *time < before ? *time - before : std::max(0.0, *time - after);
  if (std::abs(skew) > kMostSkew) {
    Error(absl::StrCat(name, ": its clock differs by ", std::round(skew * 10) / 10,
                       " s from this machine's; synchronise the clocks, as by chrony"));
  }
}

void Doctor::CheckSaves(const std::string& name, const MetricsText& metrics) {
  const double failures = metrics.Sum("simurgh_nn_checkpoint_failures_total").value_or(0) +
                          metrics.Sum("simurgh_ps_save_failures_total").value_or(0);
  if (failures > 0) {
    Warn(
        absl::StrCat(name, ": ", failures,
                     " saves have failed since its start. Its log has the error; make room in "
                     "checkpoint.directory, or correct its rights, then run `simurgh checkpoint`"));
  }
  const auto every = metrics.Sum("simurgh_nn_checkpoint_every_seconds");
  const auto uptime = metrics.Sum("simurgh_process_uptime_seconds");
  const auto now = metrics.Sum("simurgh_process_time_seconds");
  if (!every || !uptime || !now) return;
  const auto last = metrics.Sum("simurgh_nn_checkpoint_time_seconds");
  const double age = std::min(*uptime, last ? *now - *last : *uptime);
  if (age <= kCheckpointIntervals * *every) return;
  Error(absl::StrCat(name, ": no checkpoint for ", std::round(age), " s, and checkpoint.every is ",
                     *every,
                     " s; if saves do not fail, raise checkpoint.bandwidth, full_every or "
                     "every"));
}

void Doctor::CheckData(const std::string& name, const MetricsText& metrics) {
  const double rows = metrics.Sum("simurgh_nn_skipped_rows_total").value_or(0) +
                      metrics.Sum("simurgh_loader_skipped_rows_total").value_or(0);
  const double samples = metrics.Sum("simurgh_nn_samples_total").value_or(0) +
                         metrics.Sum("simurgh_loader_samples_total").value_or(0);
  if (rows > kManyRowsSkipped * samples) {
    Warn(absl::StrCat(name, ": ", rows, " bad rows were skipped, and ", samples,
                      " samples used; its log names the first of them: correct the data"));
  }
  const double steps = metrics.Sum("simurgh_nn_skipped_steps_total").value_or(0);
  if (steps > 0) {
    Warn(absl::StrCat(name, ": ", steps,
                      " steps were skipped, whose loss or gradients were not finite; lower the "
                      "learning rate, or scale the dense columns"));
  }
}

void Doctor::CheckStaleness(const std::string& name, const MetricsText& metrics) {
  const StaleReads reads = StaleReadsOf(metrics, staleness_);
  if (!reads.are_many()) return;
  Warn(absl::StrCat(name, ": ", std::round(100 * reads.share()),
                    " % of its reads of rows were 1 to ", reads.age,
                    " steps after the last one, so they can lack the gradients of batches in "
                    "flight. In short runs this costs accuracy; use training.staleness: 1"));
}

void Doctor::CheckBudget(const std::string& name, const MetricsText& metrics) {
  const auto budget = metrics.Sum("simurgh_ps_memory_budget_bytes");
  if (!budget) return;
  const double tables = metrics.Sum("simurgh_ps_table_bytes").value_or(0);
  const double process = metrics.Sum("simurgh_process_resident_bytes").value_or(0);
  if (std::max(tables, process) <= kNearBudget * *budget) return;
  Warn(absl::StrCat(name, ": tables have ", BytesText(tables), " and the process ",
                    BytesText(process), " of embedding_ps.memory_budget, ", BytesText(*budget),
                    "; add servers or raise it, or limit tables: capacity_rows, admission, "
                    "eviction"));
}

void Doctor::CheckColdRows(const std::string& name, const MetricsText& metrics) {
  const double refused = metrics.Sum("simurgh_ps_table_cold_refused_total").value_or(0);
  if (refused == 0) return;
  Warn(absl::StrFormat(
      "%s: %.0f times a row found no room in memory nor in embedding_ps.cold_directory. Then "
      "when_full applies. Its log has the cause: make room on the disk, or raise "
      "embedding_ps.memory_budget",
      name, refused));
}

void Doctor::CheckSkew(const std::vector<std::pair<std::string, double>>& rows) {
  double mean = 0;
  for (const auto& server : rows) mean += server.second / static_cast<double>(rows.size());
  for (const auto& [name, own] : rows) {
    if (own <= 1.5 * mean + 1'000) continue;
    Warn(
        absl::StrFormat("%s: it has %.0f rows, and the mean of all servers is %.0f; give them the "
                        "same memory. If the "
                        "ids are uneven, set another features.N.seed and train anew",
                        name, own, mean));
  }
}

void Doctor::CheckStopped(const ListedDaemon& daemon, bool others_run) {
  const InstanceConfig& instance = daemon.instance;
  if (!IsOfThisMachine(instance.address.empty() ? instance.metrics : instance.address)) {
    return Warn(absl::StrCat(daemon.name(), ": no answer from ", instance.metrics,
                             "; start it, or let the firewall pass its port"));
  }
  for (const std::string& text : {instance.listens_at(), instance.metrics_listens_at()}) {
    const StatusOr<rpc::Address> address = rpc::ParseAddress(text);
    if (!text.empty() && address.ok()) CheckPort(daemon.name() + " does not run", *address);
  }
  if (!others_run) return;
  // Nn-workers and loaders end with the training.
  const bool ends = daemon.kind == "nn-worker" || daemon.kind == "loader";
  const std::string text = absl::StrCat(daemon.name(), ": it does not run, and other daemons do");
  ends ? Warn(text + "; if training has not ended, read its log, and start it again")
       : Error(text + "; read its log, and start it again");
}

void Doctor::CheckDaemons(const std::vector<ListedDaemon>& daemons, const std::string& agreement) {
  std::vector<HttpTarget> targets;
  std::vector<const ListedDaemon*> asked;
  for (const ListedDaemon& daemon : daemons) {
    bool resolves = true;
    for (const std::string& text : {daemon.instance.address, daemon.instance.metrics}) {
      if (text.empty()) continue;
      const StatusOr<rpc::Address> address = rpc::ParseAddress(text);
      if (address.ok() && !address->has_path()) resolves &= CheckName(daemon.name(), address->host);
    }
    if (!resolves) continue;
    if (daemon.instance.metrics.empty()) {
      Warn(absl::StrCat(daemon.name(),
                        ": it has no `metrics` address; add one, so that its state can be read"));
      continue;
    }
    targets.push_back({daemon.instance.metrics, "/metrics"});
    asked.push_back(&daemon);
  }
  const double before = Now();
  const std::vector<StatusOr<HttpAnswer>> metrics = HttpGetAll(targets, kTimeout);
  const double after = Now();
  for (HttpTarget& target : targets) target.path = "/readyz";
  const std::vector<StatusOr<HttpAnswer>> ready = HttpGetAll(targets, kTimeout);
  for (HttpTarget& target : targets) target.path = "/configuration";
  const std::vector<StatusOr<HttpAnswer>> configurations = HttpGetAll(targets, kTimeout);
  const bool one_runs = std::ranges::any_of(metrics, [](const auto& one) { return one.ok(); });
  std::vector<std::pair<std::string, double>> rows;
  for (size_t i = 0; i < asked.size(); ++i) {
    const ListedDaemon& daemon = *asked[i];
    if (!metrics[i].ok()) {
      CheckStopped(daemon, one_runs);
      continue;
    }
    const std::string name = daemon.name();
    const auto values = CheckRunning(name, daemon.instance.metrics, *metrics[i], ready[i]);
    if (!values) continue;
    // Programs of other versions may lack it.
    if (configurations[i].ok() && configurations[i]->code == 200) {
      const std::string difference =
          SettingsDifference(configurations[i]->body, name, agreement, "CONFIG");
      if (!difference.empty()) {
        Error(absl::StrCat(name, ": it runs with another configuration: ", difference,
                           "; give all daemons the same file, and start it again"));
      }
    }
    CheckClock(name, *values, before, after);
    CheckSaves(name, *values);
    CheckData(name, *values);
    CheckBudget(name, *values);
    CheckColdRows(name, *values);
    CheckStaleness(name, *values);
    if (daemon.kind == "embedding-ps") {
      rows.emplace_back(name, values->Sum("simurgh_ps_table_rows").value_or(0));
    }
  }
  CheckSkew(rows);
}

void Doctor::CheckCluster(const std::string& path, const std::vector<std::string>& overrides) {
  const std::optional<ClusterConfig> config = Load(path, overrides);
  if (!config) return;
  for (const InstanceConfig& server : config->embedding_ps.instances) {
    if (IsOfThisMachine(server.address)) ++local_servers_;
  }
  if (config->training.mode == TrainingConfig::Mode::kHybrid) {
    staleness_ = config->training.staleness;
  }
  CheckFolder(config->checkpoint);
  CheckMemory(*config);
  CheckColdDirectory(*config);
  CheckDaemons(DaemonsOf(*config), ClusterAgreement(*config));
}

void Print(const std::vector<Finding>& findings, bool json) {
  if (!json) {
    for (const auto& [level, text] : findings) {
      std::cout << absl::StreamFormat("%-7s%s\n", NameOf(level), text);
    }
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [level, text] : findings) {
    list.push_back({{"level", NameOf(level)}, {"text", text}});
  }
  PrintJson(list);
}

}  // namespace

ExitCode RunDoctorCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  std::vector<std::string> overrides;
  bool json = false;
  po::options_description options("Options");
  options.add_options()("set", po::value(&overrides)->value_name("KEY=VALUE")->composing(),
                        "override a key of CONFIG; may be repeated")(
      "json", po::bool_switch(&json), "print a JSON array of findings");
  const CommandHelp help{"doctor: looks for what is wrong with a machine and a cluster",
                         kDoctorUsage, kDoctorNotes};
  return RunCommand(argc, argv, help, options, 1, [&](const std::vector<std::string>& words) {
    Doctor doctor;
    doctor.CheckMachine();
    if (!words.empty()) doctor.CheckCluster(words[0], overrides);
    Print(doctor.findings(), json);
    const bool has_error = std::ranges::any_of(
        doctor.findings(), [](const Finding& one) { return one.level == Level::kError; });
    return has_error ? ExitCode::kRuntimeFailure : ExitCode::kOk;
  });
}

}  // namespace simurgh
