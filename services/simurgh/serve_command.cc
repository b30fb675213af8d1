#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "config/uri.h"
#include "model/model_directory.h"
#include "services/runtime/command_line.h"
#include "services/serving/scoring_backend.h"
#include "services/serving/serving_daemon.h"
#include "services/simurgh/commands.h"
#include "telemetry/logging.h"
#include "train/program_state.h"

namespace simurgh {
namespace {

constexpr char kServeLine[] = "  simurgh serve --model MODEL [CONFIG] [options]\n";

constexpr char kServeNotes[] =
    R"(Serves the best checkpoint of the model, or without one the newest, and follows the training.
CONFIG is a YAML file with the section `serving`; with rows of other hosts, `rpc` is read, too.
Prints one line when it listens. SIGTERM and SIGINT answer the requests that have arrived, then end. SIGHUP reads the
certificate, the tokens and the version again.

Examples:
  simurgh serve --model /models/adult
  curl 127.0.0.1:8000/v1/models/adult:predict -d '{"instances": [{"age": 39}]}'
  simurgh serve --model /models/towers --items items.csv --rank-model /models/clicks
  curl 127.0.0.1:8000/v1/models/towers:recommend -d '{"instances": [{"user": "u7"}], "k": 20}'

Exit codes: 0 stopped, 2 bad arguments or configuration, 3 failed otherwise, 130 a second signal.
)";

constexpr char kSection[] = "serving.";

struct ServeOptions {
  std::string config;                  // Path of CONFIG; empty: none.
  std::vector<std::string> overrides;  // See LoadServingConfig().
  std::string log_level = "info";
  std::string log_format = "text";
};

// Returns serving.KEY='VALUE'.
std::string Override(const char* key, const std::string& value) {
  return absl::StrCat(kSection, key, "=", YamlText(value));
}

StatusOr<ServingConfig> LoadConfig(const ServeOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(ServingConfig config,
                           LoadServingConfig(options.config, options.overrides));
  if (config.model.empty()) return OptionProblem("--model is missing, and serving.model");
  SIMURGH_RETURN_IF_ERROR(CheckModelPath(config.model));
  if (!config.rank_model.empty()) SIMURGH_RETURN_IF_ERROR(CheckModelPath(config.rank_model));
  return config;
}

// Errors: INVALID_ARGUMENT if the newest checkpoint can never be served. Others are left to the
// server, which waits for a training to correct them.
Status CheckNewest(const std::string& path) {
  ModelDirectory model(path);
  const StatusOr<std::optional<uint64_t>> step = model.LatestStep();
  if (!step.ok() || !*step) return absl::OkStatus();
  const StatusOr<Checkpoint> checkpoint = model.Open(**step);
  return checkpoint.ok() ? CheckHasNetwork(*checkpoint) : absl::OkStatus();
}

StatusOr<ExitCode> Serve(const ServeOptions& options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("serve", options.log_level, options.log_format));
  std::signal(SIGPIPE, SIG_IGN);  // A write to a closed connection fails instead.
  SIMURGH_ASSIGN_OR_RETURN(const ServingConfig config, LoadConfig(options));
  SIMURGH_RETURN_IF_ERROR(CheckNewest(config.model));
  const auto make_backend = [](const ServingConfig& loaded, MetricRegistry& registry) {
    return LibraryBackend::Create(loaded, /*program=*/nullptr, registry);
  };
  const ServingParts parts{.make_backend = make_backend,
                           .reload = [&options] { return LoadConfig(options); }};
  SIMURGH_RETURN_IF_ERROR(RunServing(config, parts, std::cout));
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunServeCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  ServeOptions own;
  std::string model;
  std::string listen;
  std::string items;
  std::string rank_model;
  po::options_description options("Options");
  options.add_options()("version", "print the version")(
      "model", po::value(&model)->value_name("MODEL"), "serve this model's folder")(
      "listen", po::value(&listen)->value_name("HOST:PORT"),
      "listen here (default: 127.0.0.1:8000); port 0: any free port")(
      "items", po::value(&items)->value_name("FILE"),
      "recommend items of this file by a model of two towers (default: the model's data.items)")(
      "rank-model", po::value(&rank_model)->value_name("MODEL"),
      "rank recommended items by the model of this folder")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a key of serving, or of the model's configuration, such as the path of a "
      "vocabulary; may repeat")(
      "log-level", po::value(&own.log_level)->value_name("LEVEL")->default_value("info"),
      "log from this level: trace, debug, info, warn, error or off")(
      "log-format", po::value(&own.log_format)->value_name("FORMAT")->default_value("text"),
      "log lines of text, or of json");
  const auto run = [&](const std::vector<std::string>& words) {
    if (!words.empty()) own.config = words[0];
    if (!model.empty()) {
      own.overrides.push_back(Override("model", AbsoluteFolder(model)));
    }
    if (!items.empty())
      own.overrides.push_back(Override("items", std::filesystem::absolute(items)));
    if (!rank_model.empty()) {
      own.overrides.push_back(Override("rank_model", AbsoluteFolder(rank_model)));
    }
    if (!listen.empty()) own.overrides.push_back(Override("listen", listen));
    return Serve(own);
  };
  return RunCommand(argc, argv,
                    {"serve: predicts rows that clients send over HTTP", kServeLine, kServeNotes},
                    options, 1, run);
}

}  // namespace simurgh
