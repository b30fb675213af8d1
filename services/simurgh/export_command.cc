#include <algorithm>
#include <array>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "services/nn_worker/dense_weights.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/saved_model.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/checkpoint_choice.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/prediction_file.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/nn/onnx.h"
#include "simurgh/telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kNotes[] =
    "onnx: the towers, opset 17. Inputs are `dense` [N, columns] and `embeddings` [N, columns],\n"
    "without those of no columns; outputs are the probabilities `p` [N], or `p_LABEL` of each of\n"
    "several labels, as `simurgh predict` writes them. The model's metadata `network` describes\n"
    "the columns in JSON: src/model/FORMAT.md.\n\n"
    "FILE appears when it is complete.\n\n"
    "Exit codes: 0 done, 2 bad arguments or configuration, 3 damaged or failed otherwise.\n";

struct Options {
  CheckpointChoice checkpoint;
  std::string output;
  std::vector<std::string> overrides;
};

// The columns of predictions.
std::vector<std::string> OutputNames(const ClusterConfig& config) {
  std::vector<std::string> labels = LabelColumns(config.data);
  if (labels.size() == 1) return {"p"};
  for (std::string& label : labels) label = absl::StrCat("p_", label);
  return labels;
}

Status ExportOnnx(const Options& options) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           SavedConfig(checkpoint, /*threads=*/1, options.overrides));
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader dense, checkpoint.OpenTensors("dense.safetensors"));
  const StatusOr<DenseWeights> weights = ReadDenseWeights(dense, config);
  if (!weights.ok()) return Annotate(weights.status(), checkpoint.Path("dense.safetensors"));
  SIMURGH_ASSIGN_OR_RETURN(
      const std::string model,
      OnnxModel(config.model, InputsOf(config), weights->parameters, weights->statistics,
                {.outputs = OutputNames(config),
                 .kept_negatives = config.training.keep_negatives,
                 .step = checkpoint.manifest.step,
                 .metadata = {{"network", DescribeNetwork(config)},
                              {"step", absl::StrCat(checkpoint.manifest.step)}}}));
  SIMURGH_ASSIGN_OR_RETURN(const auto file, OutputFile::Open(options.output));
  SIMURGH_RETURN_IF_ERROR(file->Append(model));
  return file->Finish();
}

struct Action {
  const char* name;
  Status (*run)(const Options& options);
};

constexpr std::array kActions = {Action{"onnx", ExportOnnx}};

}  // namespace

ExitCode RunExportCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  const std::string usage = absl::StrCat(
      "simurgh export: writes a trained model for other programs\n\nUsage:\n", kExportUsage, "\n");
  Options own;
  po::options_description options("Options");
  options.add_options()("help", "print this help and exit");
  own.checkpoint.AddTo(options);
  options.add_options()("output", po::value(&own.output)->value_name("FILE"), "write FILE")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat");
  std::vector<std::string> words;
  const StatusOr<bool> runs =
      ParseCommandLine(argc, argv, {"simurgh", usage.c_str(), kNotes}, options, std::cout, &words);
  if (!runs.ok()) return Fail(runs.status());
  if (!*runs) return ExitCode::kOk;
  const std::string name = words.empty() ? "" : words[0];
  const auto* const action = std::ranges::find(kActions, name, &Action::name);
  if (action == kActions.end()) {
    return Fail(OptionProblem(absl::StrCat("export: '", name, "' is not an action; use onnx")));
  }
  if (words.size() > 1) {
    return Fail(OptionProblem(absl::StrCat("unexpected argument '", words[1], "'")));
  }
  for (const auto& [option, value] :
       {std::pair("--model", &own.checkpoint.model), std::pair("--output", &own.output)}) {
    if (value->empty()) return Fail(OptionProblem(absl::StrCat(option, " is missing")));
  }
  if (const Status ready = InitLogging("simurgh", "warn"); !ready.ok()) return Fail(ready);
  std::signal(SIGPIPE, SIG_IGN);  // A write returns the error.
  const Status status = action->run(own);
  return status.ok() ? ExitCode::kOk : Fail(status);
}

}  // namespace simurgh
