#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/text.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "model/file_system.h"
#include "model/model_directory.h"
#include "services/nn_worker/quality_warnings.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/address_lock.h"
#include "services/simurgh/cluster_processes.h"
#include "services/simurgh/cluster_status.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/run_folder.h"
#include "services/simurgh/run_processes.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

constexpr char kTrainNotes[] =
    R"(Starts every daemon that CONFIG lists: embedding-ps, embedding-worker, loaders and nn-worker.
The programs are in the folder of simurgh. The daemons share a new token, so that other users
of the machine cannot use them. Shows the log of the first nn-worker on stderr; on a terminal
its last line is the progress. The last line on stdout is the result. No daemon outlives this
command, even after SIGKILL.

SIGINT, SIGTERM or SIGHUP stops training: first the nn-workers, then the other daemons. A
second signal kills all of them. If a daemon fails, the others are stopped. The ends of the
logs of all that failed are printed.

With checkpoint.directory, a daemon that is killed is started again, up to three times without a new
checkpoint: at once, then after 1 s and 2 s. Training then continues from the last checkpoint.

With --refit, two trainings follow each other. The first, in the folder checkpoint.directory with
the ending -trial, finds the best number of epochs by data.validation. The second trains on
data.train and data.validation together for that number. Its model is the result. An
interrupted command continues either. It needs training.early_stopping
and training.evaluate_every_epochs.

With --standalone, one nn-worker does the work of all daemons, without sockets between them.

With `-- PROGRAM`, the program computes the dense network, in place of the nn-workers: it uses the
Python package simurgh or the C interface, and CONFIG has no `model`. The program is started once,
and again after a loss. For several nn-workers it starts its ranks itself, as torchrun does. Its
stdout is that of this command.

With --host, only the daemons run whose `address` has this host. For loaders, which have no
address, the host of `metrics` counts. Run the command on every host with its own name, in any
order, with the same CONFIG, --set and --resume. They share cluster.token_file. Each ends when
the training ends; a signal to one stops the training. The result is on stdout where the first
nn-worker runs. If a host is lost, the others fail. With checkpoint.directory they first wait
for nn_worker.rank_timeout, and training continues if the host is back by then.

Examples:
  simurgh train config/adult.yaml
  simurgh train clicks.yaml --set training.epochs=3 --set checkpoint.directory=model
  simurgh train clicks.yaml --logs logs > result
  simurgh train clicks.yaml --host ps-0.example.org
  simurgh train clicks.yaml -- python3 train.py
  simurgh train clicks.yaml -- torchrun --nproc-per-node 2 train.py

Exit codes:
  0    trained, or stopped by one signal
  2    bad arguments or configuration
  3    a daemon or another host failed; the log has the reason
  130  a second signal killed the daemons
)";

// Errors: INVALID_ARGUMENT unless each daemon has a host, and one of the hosts is this one.
Status CheckHost(const ClusterConfig& config, const std::string& host) {
  std::set<std::string> hosts;
  for (const ListedDaemon& daemon : DaemonsOf(config)) {
    if (!hosts.insert(HostOf(daemon)).second || !HostOf(daemon).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--host: ", daemon.name(), " has no host; give it ",
                     daemon.kind == "loader" ? "`metrics`" : "`address`", ": host:port"));
  }
  if (hosts.contains(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--host: no daemon is at '", host,
                                                 "'; use one of: ", absl::StrJoin(hosts, ", ")));
}

struct TrainOptions {
  ConfigArguments config;
  std::string resume;
  std::string logs;
  std::string host;
  bool standalone = false;
  bool refit = false;
  bool json = false;
  std::vector<std::string> program;  // Empty: the nn-workers have the network.
};

constexpr char kNoValidation[] = "data.validation=[]";  // Override of the second training.

// Returns whether the second training of --refit has made the model.
bool IsRefitted(const std::string& model) {
  const auto newest = ModelDirectory::Find(model);
  if (!newest.ok()) return false;
  const auto& extra = newest->checkpoint.manifest.extra;
  const auto overrides = extra.find("yaml.overrides");
  return overrides != extra.end() && absl::StrContains(overrides->second, kNoValidation);
}

// Checks the existing models. The two trainings of --refit have different data. Neither must
// continue the other's model, nor the model of a training without --refit.
Status CheckRefit(const ClusterConfig& config, const TrainOptions& options) {
  const std::string& model = config.checkpoint.directory;
  if (!options.refit) {
    if (options.resume != "auto" || model.empty() ||
        !FileSystem::For(TrialOf(model)).List(TrialOf(model)).ok() || !IsRefitted(model)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(model, ": trained with --refit; use it, or another checkpoint.directory"));
  }
  const TrainingConfig& training = config.training;
  if (config.data.validation.empty()) {
    return absl::InvalidArgumentError(
        "--refit requires data.validation: its first training ends when predictions of these rows "
        "get no better; name files, or leave out --refit");
  }
  if (model.empty() || training.early_stopping.patience == 0 ||
      training.evaluate_every_epochs == 0 || training.evaluate_every_steps > 0) {
    return absl::InvalidArgumentError(
        "--refit requires checkpoint.directory, training.early_stopping and "
        "training.evaluate_every_epochs, without training.evaluate_every_steps");
  }
  if (!options.host.empty()) return absl::InvalidArgumentError("--refit does not support --host");
  if (options.resume != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--refit does not support --resume; remove ",
                                                   model, " and ", TrialOf(model),
                                                   " to train anew"));
  }
  if (ModelDirectory::Find(model).ok() && !IsRefitted(model)) {
    return absl::InvalidArgumentError(absl::StrCat(
        model, ": trained without --refit; remove it, or use another checkpoint.directory"));
  }
  return absl::OkStatus();
}

// Returns a path as a value of an override. A relative one would be relative to the folder of the
// configuration.
std::string PathText(const std::string& path) {
  const bool is_file = !IsUri(path) && !IsStream(path);
  return YamlText(is_file ? std::filesystem::absolute(path).string() : path);
}

// Returns the overrides of the first training, which leaves the test rows to the second one.
std::vector<std::string> TrialOverrides(const ClusterConfig& config) {
  return {absl::StrCat("checkpoint.directory=", PathText(TrialOf(config.checkpoint.directory))),
          "data.test=[]"};
}

// Returns the overrides of the second training, which has the number of epochs of the trial's best
// model.
StatusOr<std::vector<std::string>> RefitOverrides(const ClusterConfig& config) {
  ModelDirectory trial(TrialOf(config.checkpoint.directory));
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> step, trial.BestStep());
  if (!step) return absl::NotFoundError(absl::StrCat(trial.path(), ": no best checkpoint"));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint best, trial.Open(*step));
  std::vector<std::string> files;
  for (const std::string& file : config.data.train) files.push_back(PathText(file));
  for (const std::string& file : config.data.validation) files.push_back(PathText(file));
  std::vector<std::string> overrides{
      absl::StrCat("data.train=[", absl::StrJoin(files, ", "), "]"),
      kNoValidation,
      absl::StrCat("training.epochs=", best.manifest.extra.at("train.epochs")),
      "training.early_stopping={}",
      "training.evaluate_every_epochs=0",
      "training.evaluate_every_steps=0",
      "checkpoint.keep_best=0"};
  // The second training has no rows to fit a calibration to. Updates have such rows.
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Calibration> calibrations,
                           ReadCalibrations(best.manifest, LabelColumns(config.data).size()));
  if (!calibrations.empty()) {
    overrides.push_back(absl::StrCat(
        "training.calibration=", YamlText(absl::StrCat("beta ", CalibrationsText(calibrations)))));
  }
  return overrides;
}

// Returns the warnings that only the first training's result can have: the second training has no
// validation rows.
std::string WarningsOfTrial(const std::string& result) {
  std::string warnings;
  for (const absl::string_view line : absl::StrSplit(result, '\n')) {
    if (absl::StrContains(line, kDriftWarning)) absl::StrAppend(&warnings, line, "\n");
  }
  return warnings;
}

// Runs one training. Sets `result` to the output of the first nn-worker: nothing if it was stopped.
// is_last: false if another training follows after a success.
StatusOr<ExitCode> TrainOnce(const TrainOptions& options, const ConfigArguments& arguments,
                             const RunFolder& folder, bool is_last, std::string& result) {
  const bool is_alone = options.host.empty();
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           arguments.Load(is_alone ? InputFiles::kCheck : InputFiles::kIgnore));
  std::vector<std::string> words{"--config", arguments.path};
  for (const std::string& override : arguments.overrides) {
    words.insert(words.end(), {"--set", override});
  }
  ClusterProcesses cluster(config,
                           {.of_all = words,
                            .resume = options.resume,
                            .program = options.program,
                            .standalone = options.standalone},
                           folder.path(), options.host);
  SIMURGH_ASSIGN_OR_RETURN(const ExitCode checked, cluster.Check());
  if (checked != ExitCode::kOk) return checked;
  std::optional<FileDescriptor> lock;
  if (is_alone && !config.checkpoint.directory.empty() && !IsUri(config.checkpoint.directory)) {
    std::error_code ignored;  // The nn-worker reports a problem of the folder.
    std::filesystem::create_directories(config.checkpoint.directory, ignored);
    SIMURGH_ASSIGN_OR_RETURN(lock, LockModel(config.checkpoint.directory, /*alone=*/false));
  }
  if (!is_alone) SIMURGH_RETURN_IF_ERROR(cluster.WatchOthers());
  SIMURGH_RETURN_IF_ERROR(cluster.Start());
  const ExitCode code = cluster.Supervise();
  std::ifstream file(cluster.result_path());
  result.assign(std::istreambuf_iterator<char>(file), {});
  if (is_last || code != ExitCode::kOk || result.empty()) {
    WriteRunState(folder.path(), {.exit_code = static_cast<int>(code)}).IgnoreError();
  }
  return code;
}

// Runs the command. Errors: INVALID_ARGUMENT for arguments or configuration.
StatusOr<ExitCode> Train(const TrainOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const auto folder, RunFolder::Create(options.logs));
  const bool is_alone = options.host.empty();
  ConfigArguments arguments = options.config;
  if (is_alone) {
    SIMURGH_RETURN_IF_ERROR(folder->WriteToken());
    // This is the first override, so that one that the user gives takes precedence.
    arguments.overrides.insert(arguments.overrides.begin(),
                               absl::StrCat("cluster.token_file=", YamlText(folder->token())));
  }
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           arguments.Load(is_alone ? InputFiles::kCheck : InputFiles::kIgnore));
  if (!is_alone) SIMURGH_RETURN_IF_ERROR(CheckHost(config, options.host));
  std::optional<FileDescriptor> lock;
  if (!options.standalone) {
    SIMURGH_ASSIGN_OR_RETURN(lock, LockAddresses(config, options.host, arguments.path));
  }
  SIMURGH_RETURN_IF_ERROR(CheckRefit(config, options));

  std::signal(SIGPIPE, SIG_IGN);  // Training does not need its progress view.
  std::signal(SIGCHLD, SIG_DFL);  // If ignored, the signal would reap children.
  const sigset_t signals = HandledSignals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const auto with = [&](const std::vector<std::string>& more) {
    ConfigArguments all = arguments;
    all.overrides.insert(all.overrides.end(), more.begin(), more.end());
    return all;
  };
  std::string result;
  SIMURGH_ASSIGN_OR_RETURN(
      ExitCode code, TrainOnce(options, options.refit ? with(TrialOverrides(config)) : arguments,
                               *folder, /*is_last=*/!options.refit, result));
  if (options.refit && code == ExitCode::kOk && !result.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> more, RefitOverrides(config));
    std::cerr << "simurgh: training again on the rows of data.validation, too: " << more[2]
              << std::endl;
    const std::string warnings = WarningsOfTrial(result);
    SIMURGH_ASSIGN_OR_RETURN(code,
                             TrainOnce(options, with(more), *folder, /*is_last=*/true, result));
    if (!result.empty()) result.insert(0, warnings);
  }
  if (code != ExitCode::kOk) return code;
  if (options.json && !result.empty()) {
    PrintJson(ResultJson(result));
  } else {
    std::cout << result;
  }
  if (!result.empty() && !config.checkpoint.directory.empty()) {
    std::cerr << "simurgh: for a page about the model: " << OwnCommand() << " report "
              << ShellWord(config.checkpoint.directory) << std::endl;
  }
  folder->Discard();
  return code;
}

}  // namespace

ExitCode RunTrainCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  TrainOptions parsed;
  const char* const* const end = std::find(argv, argv + argc, std::string_view("--"));
  const bool names_program = end < argv + argc;
  if (names_program) {
    parsed.program.assign(end + 1, argv + argc);
    argc = static_cast<int>(end - argv);
  }
  po::options_description options("Options");
  options.add_options()(
      "resume", po::value(&parsed.resume)->default_value("auto", "")->value_name("WHAT"),
      "continue a model: auto (the default): the newest in checkpoint.directory, if any; never; or "
      "the path of a model or checkpoint")(
      "logs", po::value(&parsed.logs)->value_name("FOLDER"),
      "write the logs to FOLDER, one per daemon, and keep them (default: a temporary folder, "
      "removed after a success)")(
      "host", po::value(&parsed.host)->value_name("NAME")->notifier(RefuseEmptyHost),
      "run only the daemons that CONFIG places on this host")(
      "standalone", po::bool_switch(&parsed.standalone),
      "train in one process instead, without sockets between daemons")(
      "refit", po::bool_switch(&parsed.refit),
      "train twice: with validation, then on the rows of validation, too");
  AddJsonOption(options, &parsed.json);
  const auto run = [&](const ConfigArguments& config) -> StatusOr<ExitCode> {
    parsed.config = config;
    if (names_program && parsed.program.empty()) {
      return OptionProblem("-- is followed by no program; name one, as in -- python3 train.py");
    }
    if (parsed.standalone && (names_program || !parsed.host.empty())) {
      return OptionProblem("--standalone supports neither --host nor a program");
    }
    std::error_code ignored;
    if (std::filesystem::exists(config.path, ignored) &&
        !std::filesystem::is_regular_file(config.path, ignored)) {
      return absl::InvalidArgumentError(absl::StrCat(
          config.path, " is not a regular file; name one, since every daemon reads it"));
    }
    return Train(parsed);
  };
  return RunConfigCommand(argc, argv,
                          {"train: runs all daemons of a configuration on this machine and trains",
                           kTrainUsage, kTrainNotes},
                          options, run);
}

}  // namespace simurgh
