#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <boost/program_options/value_semantic.hpp>

#include "base/text.h"
#include "config/cluster_config.h"
#include "config/nearest.h"
#include "predict/model_version.h"
#include "services/runtime/command_line.h"
#include "services/runtime/machine_limits.h"
#include "services/runtime/process.h"
#include "services/simurgh/commands.h"

namespace simurgh {
namespace {

struct Command {
  const char* name;
  const char* usage;
  ExitCode (*run)(int argc, const char* const* argv);  // argv[0] is the command.
};

constexpr Command kCommands[] = {
    {"init", kInitUsage, RunInitCommand},
    {"train", kTrainUsage, RunTrainCommand},
    {"tune", kTuneUsage, RunTuneCommand},
    {"update", kUpdateUsage, RunUpdateCommand},
    {"status", kStatusUsage, RunStatusCommand},
    {"doctor", kDoctorUsage, RunDoctorCommand},
    {"plan", kPlanUsage, RunPlanCommand},
    {"kubernetes", kKubernetesUsage, RunKubernetesCommand},
    {"trace", kTraceUsage, RunTraceCommand},
    {"up", kUpUsage, RunUpCommand},
    {"down", kDownUsage, RunDownCommand},
    {"logs", kLogsUsage, RunLogsCommand},
    {"checkpoint", kCheckpointUsage, RunCheckpointCommand},
    {"predict", kPredictUsage, RunPredictCommand},
    {"report", kReportUsage, RunReportCommand},
    {"serve", kServeUsage, RunServeCommand},
    {"export", kExportUsage, RunExportCommand},
    {"model", kModelUsage, RunModelCommand},
    {"schema", kSchemaUsage, RunSchemaCommand},
    {"completion", kCompletionUsage, RunCompletionCommand},
};

constexpr char kMainNotes[] = "simurgh COMMAND --help describes a command.\n";

// Handles --help, --version and words that are no command. Errors: INVALID_ARGUMENT for the latter.
Status RunWithoutCommand(int argc, const char* const* argv) {
  std::string usage = "simurgh: trains models and works with them\n\nUsage:\n";
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    absl::StrAppend(&usage, command.usage);
    names.emplace_back(command.name);
  }
  if (argc > 1 && argv[1][0] != '-') {
    return OptionProblem(absl::StrCat("'", argv[1], "' is not a command; ",
                                      NearestRemedy("command", argv[1], names)));
  }
  usage += "\n";
  boost::program_options::options_description options("Options");
  bool describes_metrics = false;
  options.add_options()("help", "print this help")(
      "describe-metrics", boost::program_options::bool_switch(&describes_metrics),
      "print names, types, labels and meanings of all metrics, with tabs between them, and exit")(
      "version", "print the version");
  std::vector<std::string> words;
  const StatusOr<bool> runs = ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kMainNotes},
                                               options, std::cout, &words);
  if (!runs.ok()) return runs.status();
  if (!*runs) return absl::OkStatus();
  if (describes_metrics) {
    std::cout << MetricFamily::DescribeAll();
    return absl::OkStatus();
  }
  return OptionProblem(absl::StrCat("a command is missing; ", NearestRemedy("command", "", names)));
}

int Main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // A write beyond the limit of file sizes returns the error.
  const std::string_view name = argc > 1 ? argv[1] : "";
  const Command* const command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                              [&](const auto& one) { return one.name == name; });
  ExitCode code = ExitCode::kOk;
  if (command != std::end(kCommands)) {
    code = command->run(argc - 1, argv + 1);
  } else if (const Status status = RunWithoutCommand(argc, argv); !status.ok()) {
    return static_cast<int>(Fail(status));
  }
  const Status flushed = FlushOutput();
  return static_cast<int>(flushed.ok() ? code : Fail(flushed));
}

// The script reads the options of a command from its --help, so that none is missing.
constexpr char kScript[] = R"(# source <(simurgh completion bash)
_simurgh() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-}
  if ((COMP_CWORD == 1)); then
    local commands
    commands=$("$program" --help 2>/dev/null | sed -n 's/^  simurgh \([a-z]*\) .*/\1/p' | sort -u)
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  elif [[ $word == -* ]]; then
    local options
    options=$("$program" "$command" --help 2>/dev/null | sed -n 's/^ *\(--[a-z-]*\).*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  fi
}
complete -o default -F _simurgh simurgh
)";

constexpr char kSchemaNotes[] =
    R"(Editors with a YAML language server complete and check keys by the schema. The first line of
the configuration must be
  # yaml-language-server: $schema=simurgh.schema.json
The schema has types, ranges, words, defaults and descriptions of all keys. It has no rules
that concern several keys; --check-config of a daemon checks those, too.

Example:
  simurgh schema > simurgh.schema.json
)";

}  // namespace

ExitCode Fail(const Status& status) {
  std::cerr << "simurgh: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? ExitCode::kBadConfiguration : ExitCode::kRuntimeFailure;
}

void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "simurgh: warning: " << warning << "\n";
}

ExitCode RunCommand(
    int argc, const char* const* argv, const CommandHelp& help,
    boost::program_options::options_description& options, size_t most_words,
    absl::FunctionRef<StatusOr<ExitCode>(const std::vector<std::string>& words)> run) {
  options.add_options()("help", "print this help and exit");
  const std::string head = absl::StrCat("simurgh ", help.summary, "\n\nUsage:\n", help.usage, "\n");
  std::vector<std::string> words;
  const StatusOr<bool> runs = ParseCommandLine(
      argc, argv, {"simurgh", head.c_str(), help.notes.c_str()}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  if (words.size() > most_words) {
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[most_words], "'")));
  }
  const StatusOr<ExitCode> code = run(words);
  return code.ok() ? *code : Fail(code.status());
}

StatusOr<ClusterConfig> ConfigArguments::Load(InputFiles files) const {
  StatusOr<ClusterConfig> config = LoadClusterConfig(path, overrides, files);
  if (config.ok()) return config;
  return absl::InvalidArgumentError(config.status().message());
}

ExitCode RunConfigCommand(int argc, const char* const* argv, const CommandHelp& help,
                          boost::program_options::options_description& options,
                          absl::FunctionRef<StatusOr<ExitCode>(const ConfigArguments& config)> run,
                          size_t most_words) {
  namespace po = boost::program_options;
  ConfigArguments config;
  options.add_options()("set", po::value(&config.overrides)->value_name("KEY=VALUE")->composing(),
                        "override a key of CONFIG; may be repeated");
  const auto with_config = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (words.empty()) return OptionProblem(absl::StrCat(argv[0], ": CONFIG is missing"));
    config.path = words[0];
    config.more.assign(words.begin() + 1, words.end());
    return run(config);
  };
  return RunCommand(argc, argv, help, options, most_words, with_config);
}

void CheckpointChoice::AddTo(boost::program_options::options_description& options) {
  namespace po = boost::program_options;
  options.add_options()("model", po::value(&model)->value_name("MODEL"),
                        "read this model's folder")(
      "step", po::value(&step)->value_name("N"),
      "use the checkpoint of step N, or with `latest` the newest, not the best one");
}

Status CheckModelPath(const std::string& model) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(model, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      model, ": is a file; give the model's folder, which checkpoint.directory names"));
}

StatusOr<Checkpoint> CheckpointChoice::Find() const {
  SIMURGH_RETURN_IF_ERROR(CheckModelPath(model));
  ModelDirectory directory(model);
  const auto find = [&]() -> StatusOr<ModelDirectory::Newest> {
    std::optional<uint64_t> number;
    if (step.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(number, directory.BestStep());
    } else if (step != "latest") {
      if (!absl::SimpleAtoi(step, &number.emplace())) {
        return OptionProblem(
            absl::StrCat("--step: '", step, "' is not a number from 0 on, nor latest"));
      }
    }
    if (!number) return directory.Latest();
    StatusOr<Checkpoint> checkpoint = directory.Open(*number);
    if (checkpoint.ok()) return ModelDirectory::Newest{*std::move(checkpoint), {}};
    if (!step.empty()) return checkpoint.status();
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best_now, directory.BestStep());
    if (best_now != number) return absl::AbortedError("another checkpoint is the best one now");
    return Annotate(checkpoint.status(), "the best checkpoint, use another --step");
  };
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, ModelDirectory::FindHeld(find));
  PrintWarnings(newest.warnings);
  return std::move(newest.checkpoint);
}

void PrintOverrides(const Checkpoint& checkpoint, const std::vector<std::string>& overrides,
                    const ClusterConfig& config) {
  if (overrides.empty()) return;
  const StatusOr<ClusterConfig> own = ConfigOfModel(checkpoint, {});
  const auto saved = checkpoint.manifest.extra.find("agreement");
  std::string trained;
  if (own.ok()) {
    trained = ModelAgreement(*own);
  } else if (saved != checkpoint.manifest.extra.end()) {  // A training file may be missing.
    trained = saved->second;
  }
  const std::string difference =
      SettingsDifference(trained, "the model", ModelAgreement(config), "--set");
  if (trained.empty() || difference.empty()) return;
  PrintWarnings({absl::StrCat("predictions can differ from those of the training: ", difference)});
}

ExitCode RunCompletionCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  const CommandHelp help{"completion: prints a script for a shell", kCompletionUsage,
                         "Add to ~/.bashrc: source <(simurgh completion bash)\n"};
  return RunCommand(argc, argv, help, options, SIZE_MAX,
                    [](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
                      if (words != std::vector<std::string>{"bash"}) {
                        return OptionProblem("completion: name a shell; use bash");
                      }
                      std::cout << kScript;
                      return ExitCode::kOk;
                    });
}

ExitCode RunSchemaCommand(int argc, const char* const* argv) {
  boost::program_options::options_description options("Options");
  const CommandHelp help{"schema: prints the JSON Schema of configurations", kSchemaUsage,
                         kSchemaNotes};
  return RunCommand(argc, argv, help, options, 0, [](const auto& /*words*/) {
    std::cout << ConfigSchema();
    return ExitCode::kOk;
  });
}

}  // namespace simurgh

int main(int argc, char** argv) {
  simurgh::ReportShortages("simurgh");
  try {
    return simurgh::Main(argc, argv);
  } catch (const std::exception& error) {  // The system is out of memory or threads.
    return static_cast<int>(simurgh::ReportException("simurgh", error));
  }
}
