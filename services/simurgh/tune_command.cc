#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"

namespace simurgh {
namespace {

constexpr char kTuneNotes[] =
    R"(Trains CONFIG several times with other settings, and keeps the best ones by data.validation.
The metric is that of training.early_stopping. Rows of data.test choose nothing. Optuna proposes
the settings (a tree-structured Parzen estimator), and ends trials that fall behind (ASHA).
The first trial has the settings of CONFIG.

The section `tune` of CONFIG names the keys to search, see config/README.md. Without it, these are
learning rates, dims, weight decay, batch size, and width, dropout and kind of the network.

Each trial is one process. --jobs N runs N of them at once, which share the processors.
FOLDER has at the end:
  best.yaml    the best settings, which train by themselves
  trial-N      the model of the best trial
  report.html  plots and tables of all trials
  trials.csv   the same as rows
Ctrl-C keeps what is there. The same command continues a search that was interrupted, also by
SIGKILL; a greater --trials continues one that has ended.

The search runs in Python: `pip install optuna`, and the Python package simurgh. SIMURGH_PYTHON
names another Python than python3.

Examples:
  simurgh tune clicks.yaml
  simurgh tune clicks.yaml --trials 100 --minutes 60 --jobs 4
  simurgh train clicks-tune/best.yaml --refit

Exit codes: 0 done, 2 bad arguments or configuration, 3 failed otherwise, 130 interrupted.
)";

// Starts the package, or says what is missing.
constexpr char kStart[] = R"(import sys
try:
    from simurgh.tune import main
except (ImportError, OSError) as error:
    print(f"simurgh: tune needs the Python package simurgh in {sys.executable}: {error}; "
          "install its wheel, or set SIMURGH_PYTHON to a Python that has it", file=sys.stderr)
    sys.exit(2)
main(sys.argv[1:])
)";

// Prints what the search needs to know of a configuration, defaults included.
void Describe(const ClusterConfig& config) {
  const TrainingConfig& training = config.training;
  const EvaluationMetric metric = training.early_stopping.metric.value_or(EvaluationMetric::kAuc);
  const DenseOptimizerConfig& dense = training.dense_optimizer;
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const TableConfig& table : config.tables) {
    tables.push_back({{"name", table.name},
                      {"dim", table.dim},
                      {"learning_rate", table.optimizer.learning_rate},
                      {"weight_decay", table.optimizer.weight_decay}});
  }
  PrintJson({{"metric", ReportedName(metric)},
             {"larger_is_better", ScoreOf(metric, 1) > 0},
             {"has_validation", !config.data.validation.empty()},
             {"has_test", !config.data.test.empty()},
             {"streams", config.data.streams()},
             {"ranks", config.nn_worker.instances.size()},
             {"loaders", config.loaders.instances.size()},
             {"evaluates", training.evaluate_every_epochs + training.evaluate_every_steps > 0},
             {"batch_size", training.batch_size},
             {"dense_learning_rate", dense.learning_rate},
             {"dense_weight_decay", dense.weight_decay},
             {"threads",
              {{"nn_worker.threads", config.nn_worker.threads},
               {"embedding_worker.threads", config.embedding_worker.threads},
               {"embedding_ps.partitions", config.embedding_ps.partitions}}},
             {"tables", tables}});
}

// Adds the folder of the Python package to PYTHONPATH, if the package lies near the programs.
void FindPackage(const std::filesystem::path& programs) {
  for (const std::filesystem::path& folder :
       {programs / "../..", programs / "../../../services/python"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / "simurgh/tune.py", ignored)) continue;
    const char* const given = std::getenv("PYTHONPATH");
    const std::string own = folder.lexically_normal();
    ::setenv("PYTHONPATH", given == nullptr ? own.c_str() : absl::StrCat(own, ":", given).c_str(),
             1);
    return;
  }
}

// Replaces this process by the search in Python. Errors: those of execvp().
Status StartPython(int argc, const char* const* argv) {
  std::error_code ignored;
  const std::filesystem::path programs =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  FindPackage(programs);
  ::setenv("SIMURGH_BIN_DIR", programs.c_str(), 1);  // Trials run the programs of this version.
  const char* const chosen = std::getenv("SIMURGH_PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  std::vector<std::string> words{python, "-c", kStart};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(python.c_str(), pointers.data());
  return absl::UnavailableError(absl::StrCat(python, ": ", std::strerror(errno),
                                             "; install Python 3, or set SIMURGH_PYTHON"));
}

}  // namespace

ExitCode RunTuneCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  uint32_t number = 0;
  std::string output;
  bool describes = false;
  po::options_description options("Options");
  options.add_options()("trials", po::value(&number)->value_name("N"),
                        "train N times, those of earlier calls included (default: 30)")(
      "minutes", po::value<double>()->value_name("M"),
      "end the search after M minutes (default: no limit)")(
      "jobs", po::value(&number)->value_name("N"), "run N trials at once (default: 1)")(
      "seed", po::value(&number)->value_name("N"), "seed of the search (default: 1)")(
      "output", po::value(&output)->value_name("FOLDER"),
      "write to FOLDER (default: CONFIG without its ending, and -tune)")(
      "describe", po::bool_switch(&describes),
      "print what the search reads of CONFIG, as JSON, and end");
  const auto run = [&](const ConfigArguments& arguments) -> StatusOr<ExitCode> {
    if (IsUri(output)) {
      return OptionProblem(
          "--output: the search writes no bucket; name a folder, and copy its best "
          "model by `simurgh model merge`");
    }
    if (!describes) return StartPython(argc, argv);
    SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load(InputFiles::kCheck));
    Describe(config);
    return ExitCode::kOk;
  };
  return RunConfigCommand(
      argc, argv, {"tune: searches better settings by training many times", kTuneUsage, kTuneNotes},
      options, run);
}

}  // namespace simurgh
