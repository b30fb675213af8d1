#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include <boost/program_options/options_description.hpp>

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "model/model_directory.h"
#include "services/runtime/command_line.h"

namespace simurgh {

inline constexpr char kInitUsage[] =
    "  simurgh init DATA [options]        write a configuration that trains on a file\n";
inline constexpr char kTrainUsage[] =
    "  simurgh train CONFIG [options]     run all daemons of a configuration and train\n";
inline constexpr char kTuneUsage[] =
    "  simurgh tune CONFIG [options]      search better settings by training many times\n";
inline constexpr char kUpdateUsage[] =
    R"(  simurgh update MODEL --data FILES ...
                                     train a model on new rows: simurgh update --help
)";
inline constexpr char kStatusUsage[] =
    "  simurgh status CONFIG [options]    show the state of all daemons, and what bounds them\n";
inline constexpr char kDoctorUsage[] =
    "  simurgh doctor [CONFIG] [options]  look for what is wrong with a machine and a cluster\n";
inline constexpr char kPlanUsage[] =
    "  simurgh plan [CONFIG] --ids N ...  estimate memory, network and disk of a training\n";
inline constexpr char kKubernetesUsage[] =
    "  simurgh kubernetes CONFIG [options] print the objects that train on Kubernetes\n";
inline constexpr char kTraceUsage[] =
    "  simurgh trace CONFIG [options]     record what all daemons do, for Perfetto\n";
inline constexpr char kUpUsage[] =
    "  simurgh up CONFIG [options]        start all daemons in the background on this machine\n";
inline constexpr char kDownUsage[] =
    "  simurgh down CONFIG [options]      stop the daemons that simurgh up has started\n";
inline constexpr char kLogsUsage[] =
    "  simurgh logs CONFIG [DAEMON ...]   print the logs of the daemons of simurgh up\n";
inline constexpr char kCompletionUsage[] =
    "  simurgh completion bash            print a script that completes commands in bash\n";
inline constexpr char kCheckpointUsage[] =
    R"(  simurgh checkpoint CONFIG [options]
                                     save the model of a running training now
)";
inline constexpr char kPredictUsage[] =
    "  simurgh predict --model MODEL ...  predict rows of a file: simurgh predict --help\n";
inline constexpr char kReportUsage[] =
    "  simurgh report MODEL [options]     write a page about a model: simurgh report --help\n";
inline constexpr char kServeUsage[] =
    "  simurgh serve --model MODEL ...    predict rows that clients send: simurgh serve --help\n";
inline constexpr char kExportUsage[] =
    R"(  simurgh export onnx --model MODEL --output FILE
                                     write the dense network as an ONNX model
  simurgh export embeddings --model MODEL --output FILE ...
                                     write ids and weights of tables
  simurgh export features --model MODEL --input FILE --output FILE ...
                                     write the processed ids and numbers of rows
  simurgh export vectors --model MODEL --input FILE --output FILE ...
                                     write vectors of items or users of two towers
)";
inline constexpr char kModelUsage[] =
    R"(  simurgh model list MODEL           list the checkpoints of a model
  simurgh model info MODEL [STEP]    print a checkpoint's manifest and tensors
  simurgh model history MODEL        print the reports of the training
  simurgh model verify MODEL [STEP]  read all files of a checkpoint and check them
  simurgh model diff MODEL OTHER     print what differs between two models
  simurgh model merge MODEL OUT      write a delta and what it continues as a full model
  simurgh model seal MODEL           renew the checksums of edited manifests
)";
inline constexpr char kSchemaUsage[] =
    "  simurgh schema                     print the JSON Schema of configurations\n";

// Each of these runs a command. argv[0] is its name. Output goes to stdout, progress and errors to
// stderr.
ExitCode RunInitCommand(int argc, const char* const* argv);
ExitCode RunTrainCommand(int argc, const char* const* argv);
ExitCode RunTuneCommand(int argc, const char* const* argv);
ExitCode RunUpdateCommand(int argc, const char* const* argv);
ExitCode RunStatusCommand(int argc, const char* const* argv);
ExitCode RunDoctorCommand(int argc, const char* const* argv);
ExitCode RunPlanCommand(int argc, const char* const* argv);
ExitCode RunKubernetesCommand(int argc, const char* const* argv);
ExitCode RunTraceCommand(int argc, const char* const* argv);
ExitCode RunUpCommand(int argc, const char* const* argv);
ExitCode RunDownCommand(int argc, const char* const* argv);
ExitCode RunLogsCommand(int argc, const char* const* argv);
ExitCode RunCompletionCommand(int argc, const char* const* argv);
ExitCode RunCheckpointCommand(int argc, const char* const* argv);
ExitCode RunPredictCommand(int argc, const char* const* argv);
ExitCode RunReportCommand(int argc, const char* const* argv);
ExitCode RunServeCommand(int argc, const char* const* argv);
ExitCode RunExportCommand(int argc, const char* const* argv);
ExitCode RunModelCommand(int argc, const char* const* argv);
ExitCode RunSchemaCommand(int argc, const char* const* argv);

// Prints an error. Returns kBadConfiguration for INVALID_ARGUMENT, otherwise kRuntimeFailure.
ExitCode Fail(const Status& status);

// Prints "simurgh: warning: ..." lines.
void PrintWarnings(const std::vector<std::string>& warnings);

// The parts of a command's --help.
struct CommandHelp {
  const char* summary;  // "train: runs ..."
  const char* usage;    // Lines of "Usage:".
  std::string notes;    // The last part.
};

// Parses the arguments of a command, adds the option --help, and runs the command with the words
// that are no options, of which there may be most_words. Returns the exit code; prints errors.
ExitCode RunCommand(
    int argc, const char* const* argv, const CommandHelp& help,
    boost::program_options::options_description& options, size_t most_words,
    absl::FunctionRef<StatusOr<ExitCode>(const std::vector<std::string>& words)> run);

// The arguments CONFIG and --set of a command.
struct ConfigArguments {
  // Loads the configuration. Errors: INVALID_ARGUMENT.
  StatusOr<ClusterConfig> Load(InputFiles files = InputFiles::kIgnore) const;

  std::string path;
  std::vector<std::string> overrides;
  std::vector<std::string> more;  // Words after CONFIG.
};

// Runs a command that takes a CONFIG like RunCommand(), and adds the option --set, too. most_words:
// counts CONFIG.
ExitCode RunConfigCommand(int argc, const char* const* argv, const CommandHelp& help,
                          boost::program_options::options_description& options,
                          absl::FunctionRef<StatusOr<ExitCode>(const ConfigArguments& config)> run,
                          size_t most_words = 1);

// Help of the option --allow-plugins.
inline constexpr char kAllowPlugins[] = "run the plug-ins, native code, that the model names";

// The options --model and --step of a command.
struct CheckpointChoice {
  // Lifetime: the options must not outlive this object.
  void AddTo(boost::program_options::options_description& options);

  // Returns the checkpoint of --step; without --step, the best one or else the newest. Holds the
  // checkpoint, since a training may remove it. Warnings go to stderr.
  // Errors: INVALID_ARGUMENT for a step that is no number; those of ModelDirectory.
  StatusOr<Checkpoint> Find() const;

  std::string model;
  std::string step;
};

// Checks the path of a model. Errors: INVALID_ARGUMENT if it is a file.
Status CheckModelPath(const std::string& model);

// Warns on stderr if overrides change settings of the model's training, naming the first key.
// config: with the overrides.
void PrintOverrides(const Checkpoint& checkpoint, const std::vector<std::string>& overrides,
                    const ClusterConfig& config);

// Returns the folder of the first training of `simurgh train --refit`.
inline std::string TrialOf(std::string model) {
  if (IsUri(model)) model = BucketPath(model);
  while (model.size() > 1 && model.ends_with('/')) model.pop_back();
  return model + "-trial";
}

}  // namespace simurgh
