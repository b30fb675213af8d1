#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "rpc/address.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/http_get.h"
#include "services/simurgh/metrics_text.h"
#include "simurgh/base/file_descriptor.h"
#include "simurgh/base/json_text.h"
#include "simurgh/base/version.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "Checks this machine: huge pages, limits, memory. With CONFIG also the file, its names, "
    "ports,\n"
    "folders and memory, and the daemons that run: versions, readiness and clocks. Each line is\n"
    "ok, warn or error; what follows a semicolon is the remedy. Starts and changes nothing.\n\n"
    "Exit codes:\n"
    "  0  no error\n"
    "  2  bad arguments\n"
    "  3  an error was found\n";

constexpr std::chrono::seconds kTimeout{3};
constexpr double kMostSkew = 1;  // Seconds.

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
  // Names, ports and what runs.
  void CheckDaemons(const std::vector<ListedDaemon>& daemons);
  // Returns false for a name that does not resolve.
  bool CheckName(const std::string& where, const std::string& host);
  void CheckPort(const std::string& where, const rpc::Address& address);
  void CheckRunning(const ListedDaemon& daemon, const HttpAnswer& metrics,
                    const StatusOr<HttpAnswer>& ready, double before, double after);

  std::vector<Finding> findings_;
  std::set<std::string> resolved_;
  uint64_t local_servers_ = 0;
};

double Now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// A line of /proc/meminfo in bytes.
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

std::string Gib(uint64_t bytes) {
  return absl::StrCat(std::round(static_cast<double>(bytes) / (1 << 30) * 10) / 10, " GiB");
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
  Ok(absl::StrCat("memory: ", Gib(MemoryInfo("MemAvailable")), " of ", Gib(MemoryInfo("MemTotal")),
                  " are available"));
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
      absl::StrCat("checkpoint.directory: ", Gib(space.available), " are free",
                   last == 0 ? "" : ", the last checkpoint has ", last == 0 ? "" : Gib(last));
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
                                        Gib(budget), " of its ", Gib(memory));
  budget > memory ? Error(text + "; lower embedding_ps.memory_budget, or move servers") : Ok(text);
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Null if the name does not resolve. error: of getaddrinfo().
Addresses Resolve(const std::string& host, uint16_t port, int* error = nullptr) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != nullptr) *error = code;
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

// The errno of a bind to the first address, 0 if a program could listen there.
int TryBind(const Addresses& addresses) {
  const FileDescriptor socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  return ::bind(socket.number(), addresses->ai_addr, addresses->ai_addrlen) == 0 ? 0 : errno;
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

void Doctor::CheckRunning(const ListedDaemon& daemon, const HttpAnswer& metrics,
                          const StatusOr<HttpAnswer>& ready, double before, double after) {
  const StatusOr<MetricsText> values = MetricsText::Parse(metrics.body);
  if (metrics.code != 200 || !values.ok() || !values->Sum("simurgh_build_info")) {
    return Error(absl::StrCat(daemon.name(), ": another program answers at ",
                              daemon.instance.metrics, "; stop it, or choose another port"));
  }
  if (!values->Sum("simurgh_build_info", {{"version", Version()}})) {
    Error(absl::StrCat(daemon.name(), ": its version is not ", Version(),
                       "; run one version on all machines"));
  }
  if (!ready.ok()) {
    Error(absl::StrCat(daemon.name(), ": /readyz does not answer: ", ready.status().message(),
                       "; read its log, and start it again"));
  } else if (ready->code != 200) {
    Error(absl::StrCat(daemon.name(), ": not ready: ", absl::StripAsciiWhitespace(ready->body)));
  } else {
    Ok(absl::StrCat(daemon.name(), ": ready"));
  }
  const std::optional<double> time = values->Sum("simurgh_process_time_seconds");
  if (!time) return;
  const double skew = *time < before ? *time - before : std::max(0.0, *time - after);
  if (std::abs(skew) > kMostSkew) {
    Error(absl::StrCat(daemon.name(), ": its clock differs by ", std::round(skew * 10) / 10,
                       " s from this machine's; synchronise the clocks, as by chrony"));
  }
}

void Doctor::CheckDaemons(const std::vector<ListedDaemon>& daemons) {
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
  for (size_t i = 0; i < asked.size(); ++i) {
    const ListedDaemon& daemon = *asked[i];
    if (metrics[i].ok()) {
      CheckRunning(daemon, *metrics[i], ready[i], before, after);
      continue;
    }
    const InstanceConfig& instance = daemon.instance;
    if (!IsOfThisMachine(instance.address.empty() ? instance.metrics : instance.address)) {
      Warn(absl::StrCat(daemon.name(), ": no answer from ", instance.metrics,
                        "; start it, or let the firewall pass its port"));
      continue;
    }
    for (const std::string& text : {instance.listens_at(), instance.metrics_listens_at()}) {
      const StatusOr<rpc::Address> address = rpc::ParseAddress(text);
      if (!text.empty() && address.ok()) CheckPort(daemon.name() + " does not run", *address);
    }
  }
}

void Doctor::CheckCluster(const std::string& path, const std::vector<std::string>& overrides) {
  const std::optional<ClusterConfig> config = Load(path, overrides);
  if (!config) return;
  for (const InstanceConfig& server : config->embedding_ps.instances) {
    if (IsOfThisMachine(server.address)) ++local_servers_;
  }
  CheckFolder(config->checkpoint);
  CheckMemory(*config);
  CheckDaemons(DaemonsOf(*config));
}

void Print(const std::vector<Finding>& findings, bool json) {
  std::string out;
  for (const Finding& finding : findings) {
    if (json) {
      absl::StrAppend(&out, out.empty() ? "[" : ",", "{\"level\":\"", NameOf(finding.level),
                      "\",\"text\":");
      AppendJsonText(finding.text, out);
      out += "}";
    } else {
      absl::StrAppend(&out, NameOf(finding.level),
                      std::string(7, ' ').substr(std::strlen(NameOf(finding.level))), finding.text,
                      "\n");
    }
  }
  if (json) absl::StrAppend(&out, out.empty() ? "[" : "", "]\n");
  std::cout << out;
}

}  // namespace

ExitCode RunDoctorCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  const std::string usage = absl::StrCat(
      "simurgh doctor: looks for what is wrong with a machine and a cluster\n\nUsage:\n",
      kDoctorUsage, "\n");
  std::vector<std::string> overrides;
  bool json = false;
  po::options_description options("Options");
  options.add_options()("set", po::value(&overrides)->value_name("KEY=VALUE")->composing(),
                        "override a key of CONFIG; may be repeated")(
      "json", po::bool_switch(&json), "print a JSON array of findings")("help",
                                                                        "print this help and exit");
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  if (words.size() > 1)
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[1], "'")));
  Doctor doctor;
  doctor.CheckMachine();
  if (!words.empty()) doctor.CheckCluster(words[0], overrides);
  Print(doctor.findings(), json);
  const bool has_error = std::ranges::any_of(
      doctor.findings(), [](const Finding& one) { return one.level == Level::kError; });
  return has_error ? ExitCode::kRuntimeFailure : ExitCode::kOk;
}

}  // namespace simurgh
