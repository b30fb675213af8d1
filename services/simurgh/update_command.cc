// simurgh update: trains a model on new rows, with its own configuration.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/text.h"
#include "config/cluster_config.h"
#include "config/statistics.h"
#include "config/uri.h"
#include "model/model_directory.h"
#include "rpc/address.h"
#include "services/nn_worker/model_update.h"
#include "services/runtime/command_line.h"
#include "services/runtime/listener.h"
#include "services/simurgh/cluster_processes.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/day_files.h"
#include "services/simurgh/output.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/row_check.h"
#include "services/simurgh/run_folder.h"
#include "services/simurgh/run_processes.h"
#include "services/simurgh/update_files.h"
#include "telemetry/logging.h"
#include "train/learning_rates.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

constexpr char kUpdateNotes[] =
    R"(Continues the model of a folder with the configuration that the folder has. The files of the
training are not needed. First the command tests the model on the new rows: before_auc and
before_logloss in the last line. Then the model trains on each new row once, and is saved in
the folder. Servers of simurgh serve follow, and simurgh predict uses it from then on.
Vocabularies, fitted means and quantiles stay. New ids get new rows. The test also corrects
the calibration of probabilities, if the new rows need another one.

The update begins with the best checkpoint, if there is one, else with the newest. After a
signal or a kill, the next update first ends the interrupted one from its last checkpoint.
Then another update takes new files. Each has a result line. No row counts twice. simurgh
train is not changed by updates: a training that has ended stays ended.

FILES are files, folders and patterns in quotes. Each path counts once. Files of folders and
patterns are trained on once each, in the order of their names. Those of earlier updates are
left out, also under another name, and may be deleted. A file that is named itself is trained
on again, with a warning. Folders and patterns leave out names that begin with '.' or '_' or
end with .tmp or .part. With --follow, the command waits for further files, and takes those
that are 5 s old. It needs a folder or a pattern.

Files have the format of the training. If columns have names, the ending tells it, such as
.csv, .jsonl and .parquet; all files have one format. Warnings tell what is doubtful about the
rows. A bad row ends the update before its first step, unless --set data.on_bad_row=skip is
given. With --follow, a file with bad rows is left out until it changes, with a warning.

All daemons of the configuration but loaders run on this machine, and use Unix sockets. They
serve metrics at those configured addresses that are free here.

Examples:
  simurgh update clicks-model --data monday.csv
  simurgh update clicks-model --data 'days/*.csv' --follow
  simurgh update clicks-model --data tuesday.csv --replay monday.csv sunday.csv

Exit codes:
  0    updated, stopped by one signal, or there was no new file, which it says
  2    bad arguments, data or configuration, such as a folder that does not exist
  3    a daemon failed; the log has the reason
  130  a second signal killed the daemons
)";

struct UpdateOptions {
  std::string model;
  std::vector<std::string> data;
  std::vector<std::string> replay;
  std::optional<double> replay_share;
  std::vector<std::string> overrides;
  std::string logs;
  uint32_t epochs = 1;
  bool follows = false;
  bool json = false;
};

// The text and the overrides from which a checkpoint's configuration was parsed.
struct ModelSource {
  std::string yaml;
  std::string path;
  std::vector<std::string> overrides;
};

StatusOr<ModelSource> SourceOf(const Checkpoint& checkpoint) {
  const auto& extra = checkpoint.manifest.extra;
  for (const char* const key : {"yaml", "yaml.path", "yaml.overrides"}) {
    if (extra.contains(key)) continue;
    return absl::DataLossError(absl::StrCat(checkpoint.Path("manifest.json"), ": extra.", key,
                                            " is missing; use a checkpoint of this program"));
  }
  return ModelSource{extra.at("yaml"), extra.at("yaml.path"),
                     absl::StrSplit(extra.at("yaml.overrides"), '\n', absl::SkipEmpty())};
}

// Returns where the daemon serves its metrics: its own port of this machine, if that is free.
// Empty: nowhere.
std::string FreeMetrics(const InstanceConfig& instance) {
  const auto address = rpc::ParseAddress(instance.metrics_listens_at());
  if (!address.ok() || address->host.empty()) return "";
  const bool is_local = address->host == "127.0.0.1" || address->host == "localhost" ||
                        address->host == "::1" || address->host == "0.0.0.0";
  if (!is_local || TryBind(Resolve("127.0.0.1", address->port)) != 0) return "";
  return absl::StrCat("127.0.0.1:", address->port);
}

// Returns overrides for the same instances, with sockets in a folder.
std::vector<std::string> InstanceOverrides(const ClusterConfig& config, const std::string& folder) {
  const auto list = [&](const char* section, const std::vector<InstanceConfig>& instances) {
    std::vector<std::string> all;
    for (size_t i = 0; i < instances.size(); ++i) {
      const std::string metrics = FreeMetrics(instances[i]);
      std::string one = absl::StrCat(
          "{address: ", YamlText(absl::StrCat("unix://", folder, "/", section, "-", i)));
      if (!metrics.empty()) absl::StrAppend(&one, ", metrics: ", YamlText(metrics));
      if (instances[i].cuda_device) {
        absl::StrAppend(&one, ", cuda_device: ", *instances[i].cuda_device);
      }
      all.push_back(one + "}");
    }
    return absl::StrCat(section, ".instances=[", absl::StrJoin(all, ", "), "]");
  };
  return {list("embedding_ps", config.embedding_ps.instances),
          list("embedding_worker", config.embedding_worker.instances),
          list("nn_worker", config.nn_worker.instances)};
}

std::vector<std::string> PathsOf(const std::vector<DayFile>& files) {
  std::vector<std::string> paths;
  for (const DayFile& file : files) paths.push_back(file.path);
  return paths;
}

std::string FilesOverride(const char* key, const std::vector<DayFile>& files) {
  std::vector<std::string> paths;
  for (const DayFile& file : files) paths.push_back(YamlText(file.path));
  return absl::StrCat(key, "=[", absl::StrJoin(paths, ", "), "]");
}

// Returns the override that keeps the calibration of the model.
std::string CalibrationOverride(const Manifest& manifest) {
  const auto found = manifest.extra.find("calibration");
  return absl::StrCat("training.calibration=",
                      found == manifest.extra.end() ? "none" : YamlText(found->second));
}

std::string NewId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(uint64_t{random()} << 32 | random(), absl::kZeroPad16));
}

void Warn(const std::string& text) { PrintWarnings({text}); }

// Adds the names of the files to a result's line.
std::string WithFiles(std::string result, std::vector<std::string> names) {
  constexpr size_t kShown = 10;
  const bool are_many = names.size() > kShown;
  names.resize(std::min(kShown, names.size()));
  result.pop_back();  // Removes the end of the line.
  return absl::StrCat(result, " files=", absl::StrJoin(names, ","), are_many ? ",...\n" : "\n");
}

// The updates of one model.
class Updates {
 public:
  Updates(const UpdateOptions& options, const RunFolder& folder)
      : options_(options), folder_(folder), queue_(options.data, options.follows) {}

  // Makes one update, with the rest of an interrupted one, else with new files. Sets `result` to
  // the output of the first nn-worker; empty if there was no update, or it was stopped. is_first:
  // it is the first one of the command.
  StatusOr<ExitCode> Once(bool is_first, std::string& result) {
    result.clear();
    ModelDirectory directory(options_.model);
    SIMURGH_ASSIGN_OR_RETURN(const ModelDirectory::Newest newest, directory.Latest());
    PrintWarnings(is_first ? newest.warnings : std::vector<std::string>());
    const Manifest& manifest = newest.checkpoint.manifest;
    SIMURGH_ASSIGN_OR_RETURN(ModelSource source, SourceOf(newest.checkpoint));
    SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig saved, SavedConfig(source));
    SIMURGH_ASSIGN_OR_RETURN(const UpdateFiles update,
                             queue_.Next(saved.data, directory, manifest));
    if (update.files.empty()) return ExitCode::kOk;
    if (LeavesOut(DataOf(saved.data, PathsOf(update.files)).status(), update)) return ExitCode::kOk;
    SIMURGH_ASSIGN_OR_RETURN(source.overrides,
                             Overrides(saved, std::move(source.overrides), update.files));
    // The model predicts rows that it was trained on better than others: they cannot calibrate it.
    if (update.repeats) source.overrides.push_back(CalibrationOverride(manifest));
    StatusOr<ClusterConfig> config =
        ParseClusterConfig(source.yaml, source.path, source.overrides, InputFiles::kCheck);
    if (!config.ok()) return Annotate(config.status(), "the model's configuration");
    ClusterConfig read = *config;
    SIMURGH_RETURN_IF_ERROR(ApplyStatistics(manifest.statistics, read.data, read.features));
    const auto warnings = CheckRows(read, update.files);
    if (LeavesOut(warnings.status(), update)) return ExitCode::kOk;
    SIMURGH_RETURN_IF_ERROR(warnings.status());
    PrintWarnings(*warnings);
    if (is_first) WarnOfRate(*config, manifest.step);
    SIMURGH_ASSIGN_OR_RETURN(
        const ExitCode code,
        Train(*config, source, update.id.empty() ? NewId() : update.id, result));
    if (has_started_ && code == ExitCode::kBadConfiguration &&
        LeavesOut(absl::InvalidArgumentError("see the log above"), update)) {
      return ExitCode::kOk;
    }
    if (!result.empty()) {
      queue_.Finish(update);
      names_.clear();
      for (const DayFile& file : update.files) names_.push_back(file.identity.name);
    }
    return code;
  }

  // Returns whether a signal has stopped the last update.
  bool was_stopped() const { return was_stopped_; }
  // Returns the names of the last update's files.
  const std::vector<std::string>& names() const { return names_; }
  // Returns whether the last update was an interrupted one, so that the new files remain.
  bool has_more() const { return queue_.has_more(); }

 private:
  // With --follow, a file with bad rows does not keep the command from others. Returns whether the
  // problem is one of the rows, and the update is left out.
  bool LeavesOut(const Status& problem, const UpdateFiles& update) {
    if (!options_.follows || !absl::IsInvalidArgument(problem) || !update.id.empty()) return false;
    queue_.Refuse(update, std::string(problem.message()));
    return true;
  }

  StatusOr<ClusterConfig> SavedConfig(const ModelSource& source) const {
    std::vector<std::string> overrides = source.overrides;
    overrides.push_back(absl::StrCat("cluster.token_file=", YamlText(folder_.token())));
    StatusOr<ClusterConfig> config =
        ParseClusterConfig(source.yaml, source.path, overrides, InputFiles::kIgnore);
    if (!config.ok()) return Annotate(config.status(), "the model's configuration");
    if (!config->data.streams()) return config;
    return absl::InvalidArgumentError(
        "the model reads topics of Kafka; simurgh train continues it with their new records");
  }

  StatusOr<std::vector<std::string>> Overrides(const ClusterConfig& saved,
                                               std::vector<std::string> overrides,
                                               const std::vector<DayFile>& files) const {
    std::vector<std::string> paths = PathsOf(files);
    const auto add = [&](const std::vector<std::string>& more) {
      overrides.insert(overrides.end(), more.begin(), more.end());
    };
    add({absl::StrCat("checkpoint.directory=", YamlText(options_.model)), "checkpoint.keep_best=0",
         "data.validation=[]", absl::StrCat("training.epochs=", options_.epochs),
         "training.max_steps=0", "training.early_stopping={}", "training.evaluate_every_epochs=0",
         "training.evaluate_every_steps=0", "loaders={}", "rpc.security=loopback", "rpc.tls={}"});
    add(InstanceOverrides(saved, folder_.path()));
    DayFiles old;
    if (!options_.replay.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(old, FindDayFiles(saved.data, options_.replay));
      if (old.files.empty()) {
        return absl::InvalidArgumentError("--replay: no file matches; correct it");
      }
      std::ranges::move(PathsOf(old.files), std::back_inserter(paths));
    }
    SIMURGH_ASSIGN_OR_RETURN(const auto format, FormatOverrides(saved.data, paths));
    add(format);
    add(options_.overrides);
    add({absl::StrCat("cluster.token_file=", YamlText(folder_.token())),
         FilesOverride("data.train", files), FilesOverride("data.test", files)});
    if (options_.replay.empty()) return overrides;
    add({FilesOverride("data.replay", old.files)});
    if (options_.replay_share) add({absl::StrCat("data.replay_share=", *options_.replay_share)});
    return overrides;
  }

  // Warns of a learning rate that is nearly 0 because its schedule has ended: it trains nothing.
  static void WarnOfRate(const ClusterConfig& config, uint64_t step) {
    constexpr float kLeast = 0.01F;
    const auto warn = [step](const std::string& what, const std::string& key,
                             const LearningRateSchedule& schedule) {
      const float share = LearningRateAt(1, schedule, step);
      if (share >= kLeast) return;
      Warn(absl::StrCat(what, ": at step ", step, " the schedule's learning rate is ", share,
                        " of the first; the update changes little. Use --set ", key,
                        ".schedule={}"));
    };
    warn("dense weights", "training.dense_optimizer", config.training.dense_optimizer.schedule);
    for (const TableConfig& table : config.tables) {
      warn(absl::StrCat("table '", table.name, "'"), "tables.N.optimizer",
           table.optimizer.schedule);
    }
  }

  StatusOr<ExitCode> Train(const ClusterConfig& config, const ModelSource& source,
                           const std::string& id, std::string& result) {
    const std::string path = folder_.path() + "/model.yaml";
    std::ofstream(path, std::ios::binary) << source.yaml;
    std::vector<std::string> words{"--config", path, "--config-place", source.path};
    for (const std::string& override : source.overrides) {
      words.insert(words.end(), {"--set", override});
    }
    ClusterProcesses cluster(config, {.of_all = words, .update = id}, folder_.path());
    SIMURGH_ASSIGN_OR_RETURN(const ExitCode checked, cluster.Check());
    if (checked != ExitCode::kOk) return checked;
    SIMURGH_RETURN_IF_ERROR(cluster.Start());
    has_started_ = true;
    const ExitCode code = cluster.Supervise();
    WriteRunState(folder_.path(), {.exit_code = static_cast<int>(code)}).IgnoreError();
    if (code != ExitCode::kOk) return code;
    std::ifstream file(cluster.result_path());
    result.assign(std::istreambuf_iterator<char>(file), {});
    was_stopped_ = result.empty();
    if (was_stopped_) {
      std::cerr << "simurgh: the update was stopped; the same command continues it" << std::endl;
    }
    return code;
  }

  const UpdateOptions& options_;
  const RunFolder& folder_;
  UpdateQueue queue_;
  std::vector<std::string> names_;
  bool was_stopped_ = false;
  bool has_started_ = false;  // A daemon has started, so the configuration is good.
};

// Waits for a signal that ends the command, for `time` at most. Returns whether there was one.
bool AwaitSignal(std::chrono::seconds time) {
  const sigset_t signals = HandledSignals();
  const timespec patience{.tv_sec = time.count(), .tv_nsec = 0};
  const int signal = ::sigtimedwait(&signals, nullptr, &patience);
  return signal > 0 && signal != SIGCHLD;
}

void PrintResult(const std::string& result, const std::vector<std::string>& names, bool is_json) {
  if (!is_json) {
    std::cout << WithFiles(result, names);
    return;
  }
  nlohmann::ordered_json json = ResultJson(result);
  json["files"] = names;
  PrintJson(json);
}

// Runs the command. Errors: INVALID_ARGUMENT for arguments, data or configuration.
StatusOr<ExitCode> Update(UpdateOptions options) {
  constexpr std::chrono::seconds kLook{1};
  std::error_code ignored;
  if (fs::is_regular_file(options.model, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.model, ": is a file; name the folder of the model, checkpoint.directory"));
  }
  if (!IsUri(options.model) && !fs::is_directory(options.model, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.model, ": no such folder; name that of a trained model, its checkpoint.directory"));
  }
  options.model = AbsoluteFolder(options.model);
  SIMURGH_RETURN_IF_ERROR(InitLogging("update", "warn", "text"));
  SIMURGH_ASSIGN_OR_RETURN(const FileDescriptor lock, LockModel(options.model, /*alone=*/true));
  SIMURGH_ASSIGN_OR_RETURN(const auto folder, RunFolder::Create(options.logs));
  SIMURGH_RETURN_IF_ERROR(folder->WriteToken());
  std::signal(SIGPIPE, SIG_IGN);  // Training does not need its progress view.
  std::signal(SIGCHLD, SIG_DFL);  // If ignored, the signal would reap children.
  const sigset_t signals = HandledSignals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  Updates updates(options, *folder);
  std::string result;
  for (bool is_first = true;; is_first = false) {
    SIMURGH_ASSIGN_OR_RETURN(const ExitCode code, updates.Once(is_first, result));
    if (code != ExitCode::kOk) return code;
    if (!result.empty()) {
      PrintResult(result, updates.names(), options.json);
    } else if (options.json && is_first && !options.follows && !updates.was_stopped()) {
      PrintJson({{"new_rows", 0}, {"trained_steps", 0}, {"files", nlohmann::json::array()}});
    }
    std::cout.flush();
    if (updates.was_stopped() || (!options.follows && !updates.has_more())) break;
    if (result.empty() && AwaitSignal(kLook)) break;
  }
  folder->Discard();
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunUpdateCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  UpdateOptions parsed;
  po::options_description options("Options");
  options.add_options()("data",
                        po::value(&parsed.data)->value_name("FILES")->multitoken()->composing(),
                        "train on the rows of these files, folders and patterns")(
      "epochs", po::value(&parsed.epochs)->default_value(1, "")->value_name("N"),
      "train N times on the new rows (default: once)")(
      "replay", po::value(&parsed.replay)->value_name("FILES")->multitoken()->composing(),
      "mix a sample of these older rows into the new ones, against forgetting")(
      "replay-share", po::value<double>()->value_name("SHARE")->notifier([&](double share) {
        parsed.replay_share = share;
      }),
      "train on older rows in this share of the steps (default: 0.2)")(
      "follow", po::bool_switch(&parsed.follows),
      "wait for further files of the folders and patterns, until a signal")(
      "set", po::value(&parsed.overrides)->value_name("KEY=VALUE")->composing(),
      "override a key of the model's configuration, for this update; may be repeated. "
      "tables.N.capacity_rows stays for later updates")(
      "logs", po::value(&parsed.logs)->value_name("FOLDER"),
      "write the logs to FOLDER, one per daemon, and keep them (default: a temporary folder, "
      "removed after a success)");
  AddJsonOption(options, &parsed.json);
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (words.empty()) return OptionProblem("update: MODEL is missing; name its folder first");
    if (parsed.data.empty()) return OptionProblem("update: --data FILES is missing");
    if (parsed.replay_share && parsed.replay.empty()) {
      return OptionProblem("--replay-share requires --replay FILES");
    }
    if (parsed.epochs == 0) return OptionProblem("--epochs: 0 is out of range; use 1 or more");
    parsed.model = words[0];
    return Update(parsed);
  };
  return RunCommand(argc, argv,
                    {"update: trains a model on new rows, with its own configuration", kUpdateUsage,
                     kUpdateNotes},
                    options, 1, run);
}

}  // namespace simurgh
