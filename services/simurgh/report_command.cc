// simurgh report: writes a page about a model, its training and its predictions.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "retrieval/training_ranking.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/version.h"
#include "config/uri.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "report/findings.h"
#include "report/importance.h"
#include "report/page.h"
#include "report/ranking_report.h"
#include "report/report.h"
#include "report/report_json.h"
#include "report/shown_columns.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/file_prediction.h"
#include "services/simurgh/output.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/scan_input.h"
#include "telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kReportNotes[] =
    R"(The page is one file of HTML without scripts, for any browser, and for print. It says how good
the predictions are and how sure that is, what to do next, and how training went. It shows what
the model uses, its calibration, parts of the rows, its tables, and changes of the columns.

The rows are the test files of the model's configuration, or those of --input: a file, a folder
or a pattern, as for simurgh predict. Without rows, the page has the training and the tables.
Without labels, it has the predictions.

AUC, curves and intervals are from a uniform sample of 1,000,000 rows if there are more. The
importance of the columns takes some 20 s on two processors. --importance-rows 0 leaves it out.
Equal rows give equal pages.

Of a model of two towers, the page has how its rankings find the users' items: recall, hit rate,
NDCG and MRR over all items, with intervals by a bootstrap over users.

With --compare, the page has the differences to another model on the same rows, with intervals.
--by names columns of the rows, also others than the training's. By default they are columns
with few values that matter most.

Examples:
  simurgh report clicks-model
  simurgh report clicks-model --input monday.csv --by site --output monday.html
  simurgh report new-model --compare old-model --json report.json

Exit codes:
  0  written
  2  bad arguments, model or configuration, or there are no good rows
  3  damaged, missing or failed otherwise
)";

struct ReportOptions {
  std::string model;
  std::string step;
  std::string input;
  std::string compare;
  std::vector<std::string> by;
  std::string output = "report.html";
  std::string json;
  int64_t importance_rows = -1;  // -1: DefaultImportanceRows().
  uint32_t repeats = 5;
  int64_t threads = 0;
  std::vector<std::string> overrides;
  bool allow_plugins = false;
};

// Returns the test files of a checkpoint's configuration. Empty: it names none.
// Errors: those of ParseClusterConfig(). The training's token and certificates may be gone.
StatusOr<std::vector<std::string>> TestFilesOf(const Checkpoint& checkpoint) {
  const auto& extra = checkpoint.manifest.extra;
  const auto text = [&](const char* key) {
    const auto found = extra.find(key);
    return found == extra.end() ? std::string() : found->second;
  };
  std::vector<std::string> overrides =
      absl::StrSplit(text("yaml.overrides"), '\n', absl::SkipEmpty());
  overrides.insert(
      overrides.end(),
      {absl::StrCat("cluster.token_file=", YamlText(PresentFile(checkpoint))), "rpc={}"});
  SIMURGH_ASSIGN_OR_RETURN(
      const ClusterConfig config,
      ParseClusterConfig(text("yaml"), text("yaml.path"), overrides, InputFiles::kIgnore));
  return config.data.test;
}

// A model in memory.
struct LoadedModel {
  Checkpoint checkpoint;
  std::shared_ptr<const ModelVersion> version;
};

StatusOr<LoadedModel> Find(const std::string& model, const std::string& step) {
  CheckpointChoice choice;
  choice.model = model;
  choice.step = step;
  LoadedModel loaded;
  SIMURGH_ASSIGN_OR_RETURN(loaded.checkpoint, choice.Find());
  return loaded;
}

// Sets the parts of a report that need no rows.
Status DescribeModel(const Checkpoint& checkpoint, const ClusterConfig& config,
                     const std::string& model, Report& report) {
  const Manifest& manifest = checkpoint.manifest;
  report.folder = model;
  report.version = Version();
  report.step = manifest.step;
  report.samples = manifest.samples;
  report.step_time = static_cast<double>(manifest.step_time);
  report.config = manifest.config;
  for (const ModelFile& file : manifest.files) report.files.emplace_back(file.path, file.bytes);
  SIMURGH_ASSIGN_OR_RETURN(report.tables, ReadTables(checkpoint, config));
  SIMURGH_ASSIGN_OR_RETURN(report.history, ReadHistory(model));
  SetEvicted(report.history, manifest.step, report.tables);
  if (!report.history.EvaluationsOf(/*tests=*/false).empty()) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(TrainingHistory trial, ReadHistory(TrialOf(model)));
  if (trial.empty()) return absl::OkStatus();
  report.history = std::move(trial);
  report.trial = TrialOf(model);
  return absl::OkStatus();
}

// Returns the rows to predict; none if the configuration has no test files that exist, with the
// reason in the report.
StatusOr<std::optional<PredictInput>> FindInput(const ReportOptions& options,
                                                const Checkpoint& checkpoint,
                                                const ClusterConfig& config, Report& report) {
  if (!options.input.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(PredictInput input, InputOf(config.data, options.input));
    return input;
  }
  const StatusOr<std::vector<std::string>> found = TestFilesOf(checkpoint);
  if (!found.ok()) {
    report.input_problem = absl::StrCat(
        "The model's test files cannot be found: ", std::string(found.status().message()),
        ". Give rows by --input.");
    return std::nullopt;
  }
  const std::vector<std::string>& files = *found;
  if (files.empty()) {
    report.input_problem = "The model's configuration names no test files. Give rows by --input.";
    return std::nullopt;
  }
  for (const std::string& file : files) {
    std::error_code ignored;
    if (IsUri(file) || std::filesystem::exists(file, ignored)) continue;
    report.input_problem =
        absl::StrCat("The test file ", file, " is not there. Give rows by --input.");
    return std::nullopt;
  }
  SIMURGH_ASSIGN_OR_RETURN(DataConfig data, DataOf(config.data, files));
  return PredictInput{.data = std::move(data), .files = files};
}

std::string NameOf(const ReportOptions& options, const PredictInput& input) {
  return options.input.empty() ? absl::StrJoin(input.files, ", ") : options.input;
}

Status MeasureColumns(const ReportOptions& options, const LoadedModel& model,
                      const ScannedInput& scanned, const std::vector<ColumnGroup>& groups,
                      uint32_t threads, Report& report) {
  const ImportanceRows& rows = scanned.scan->importance_rows();
  if (rows.lines.size() < 2) return absl::OkStatus();
  ProgressLine line;
  SIMURGH_ASSIGN_OR_RETURN(report.importance,
                           MeasureImportance(*model.version, scanned.input->data, rows,
                                             {.groups = groups,
                                              .repeats = options.repeats,
                                              .threads = threads,
                                              .progress = [&](size_t done) {
                                                line.Show("permuting", done,
                                                          absl::StrCat(" of=", rows.lines.size()));
                                              }}));
  line.End();
  return absl::OkStatus();
}

// Sets the labels' parts of a report. Returns their bootstraps.
std::vector<Bootstrap> DescribeLabels(const ScannedInput& scanned, const ClusterConfig& config,
                                      std::vector<LabelReport>& labels) {
  std::vector<Bootstrap> bootstraps;
  const std::vector<TaskConfig> tasks = TasksOf(config.model);
  const std::vector<std::string> names = LabelColumns(config.data);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const LabelledRows rows = scanned.scan->sample().RowsOf(i);
    bootstraps.emplace_back(rows, tasks[i].loss.kind);
    TaskConfig task = tasks[i];
    task.label = names[i];
    labels.push_back(MakeLabelReport(task, scanned.scan->sums(i), rows, bootstraps.back()));
  }
  return bootstraps;
}

// Predicts the rows with another model, too.
Status Compare(const ReportOptions& options, const PredictInput& input, const ScannedInput& scanned,
               const std::vector<Bootstrap>& bootstraps, uint32_t threads, Report& report) {
  SIMURGH_ASSIGN_OR_RETURN(LoadedModel other, Find(options.compare, ""));
  SIMURGH_ASSIGN_OR_RETURN(other.version,
                           LoadVersion(other.checkpoint, options.overrides, options.allow_plugins));
  const ClusterConfig& config = other.version->config();
  StatusOr<DataConfig> data = DataOf(config.data, input.files);
  if (!data.ok()) return Annotate(data.status(), "--compare");
  const std::string name = NameOf(options, input);
  StatusOr<ScannedInput> its =
      ScanInput(other.version, {.data = *std::move(data), .files = input.files},
                {.name = name, .threads = threads, .scan = {}});
  if (!its.ok()) return Annotate(its.status(), absl::StrCat("--compare ", options.compare));
  const PredictedSample& a = scanned.scan->sample();
  const PredictedSample& b = its->scan->sample();
  const auto are_equal = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, [](float one, float two) {
      return one == two || (std::isnan(one) && std::isnan(two));
    });
  };
  if (a.label_count != b.label_count || !are_equal(a.labels, b.labels) ||
      !are_equal(a.weights, b.weights)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--compare ", options.compare, ": the models read other labels or weights of ",
                     name, ", or other rows are bad; compare models with the same labels"));
  }
  ComparedModel& compared = report.compared.emplace();
  compared.folder = options.compare;
  compared.step = other.checkpoint.manifest.step;
  const std::vector<Bootstrap> others = DescribeLabels(*its, config, compared.labels);
  for (size_t i = 0; i < bootstraps.size(); ++i) {
    compared.differences.push_back(bootstraps[i].Differences(others[i]));
  }
  return absl::OkStatus();
}

// Ranks the items for the users of the rows, by a model of two towers.
Status DescribeRanking(const ReportOptions& options, const ModelVersion& model, PredictInput input,
                       Report& report) {
  for (const auto& [is_given, option] :
       {std::pair(!options.compare.empty(), "--compare"), {!options.by.empty(), "--by"}}) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": the model is one of two towers, which ranks items; leave it out"));
  }
  if (model.config().data.items.files.empty()) {
    report.input_problem =
        "The model ranks items, and its data.items names no file of them. Give one by --set "
        "data.items=FILE.";
    return absl::OkStatus();
  }
  const std::string name = NameOf(options, input);
  RankingBootstrap bootstrap;
  SIMURGH_ASSIGN_OR_RETURN(
      const RankedRows ranked,
      RankRows(model, std::move(input), [&](const RankingResult& user) { bootstrap.Add(user); }));
  report.ranking = bootstrap.ReportOf(ranked.result);
  report.input = InputReport{.name = name,
                             .rows = ranked.rows,
                             .bad_rows = ranked.bad_rows,
                             .sampled_rows = ranked.rows - ranked.bad_rows,
                             .has_labels = true};
  return absl::OkStatus();
}

// Sets the parts of a report that need rows.
Status DescribeRows(const ReportOptions& options, LoadedModel& model, PredictInput input,
                    Report& report) {
  SIMURGH_ASSIGN_OR_RETURN(const uint32_t threads, PredictThreads(options.threads));
  SIMURGH_ASSIGN_OR_RETURN(model.version,
                           LoadVersion(model.checkpoint, options.overrides, options.allow_plugins));
  PrintOverrides(model.checkpoint, options.overrides, model.version->config());
  const ClusterConfig& config = model.version->config();
  if (RanksItems(config)) return DescribeRanking(options, *model.version, std::move(input), report);
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<ColumnGroup> groups,
                           ColumnGroupsOf(*model.version, {}));
  const size_t labels = LabelColumns(config.data).size();
  ScanOptions scanning{.name = NameOf(options, input),
                       .threads = threads,
                       .scan = {},
                       .may_lack_labels = options.compare.empty()};
  scanning.scan.importance_rows =
      std::min(options.importance_rows < 0 ? DefaultImportanceRows(groups.size(), options.repeats)
                                           : static_cast<size_t>(options.importance_rows),
               MostImportanceRows(groups.size(), options.repeats, labels));
  scanning.scan.by = OwnNames(options.by, input.data);
  AddColumns(scanning.scan.by, input.data);
  if (const Status known = RowText::Create(input.data, scanning.scan.by).status(); !known.ok()) {
    return Annotate(known, "--by");
  }
  if (options.by.empty()) scanning.scan.others = SegmentCandidates(*model.version, input.data);
  SIMURGH_ASSIGN_OR_RETURN(const ScannedInput scanned, ScanInput(model.version, input, scanning));
  for (const ColumnConfig& column : ColumnsOf(input.data)) {
    if (HeaderName(column) != column.name) {
      report.header_names.emplace(column.name, HeaderName(column));
    }
  }
  report.input = scanned.report;
  report.numbers = scanned.scan->numbers();
  report.ids = scanned.ids;
  if (!scanned.report.has_labels) {
    for (size_t i = 0; i < labels; ++i) {
      report.unlabelled.push_back(
          SummaryOf(LabelColumns(config.data)[i], scanned.scan->sample(), i));
    }
    return absl::OkStatus();
  }
  std::vector<Bootstrap> bootstraps = DescribeLabels(scanned, config, report.labels);
  SIMURGH_RETURN_IF_ERROR(MeasureColumns(options, model, scanned, groups, threads, report));
  report.segments = ShownSegments(*scanned.scan, report.importance, scanned.input->data,
                                  /*are_wanted=*/!options.by.empty());
  if (options.compare.empty()) return absl::OkStatus();
  return Compare(options, input, scanned, bootstraps, threads, report);
}

StatusOr<ExitCode> MakeReport(const ReportOptions& options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
  SIMURGH_ASSIGN_OR_RETURN(LoadedModel model, Find(options.model, options.step));
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           ConfigOfModel(model.checkpoint, options.overrides));
  Report report;
  SIMURGH_RETURN_IF_ERROR(DescribeModel(model.checkpoint, config, options.model, report));
  SIMURGH_ASSIGN_OR_RETURN(std::optional<PredictInput> input,
                           FindInput(options, model.checkpoint, config, report));
  if (input) {
    SIMURGH_RETURN_IF_ERROR(CheckReplacesNone(input->files, options.output));
    SIMURGH_RETURN_IF_ERROR(CheckReplacesNone(input->files, options.json, "--json"));
  }
  // Before the work, which a wrong path would waste.
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> page,
                           OutputFile::Open(options.output));
  std::unique_ptr<OutputFile> json;
  if (!options.json.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(json, OutputFile::Open(options.json, "--json"));
  }
  if (config.model.is_hosted()) {
    if (!options.input.empty() || !options.compare.empty()) {
      return absl::InvalidArgumentError(
          "--input: the model's network is a program's, so that its rows cannot be predicted; "
          "leave out --input and --compare");
    }
    report.input_problem =
        "The model's network is a program's. The page has the training and the tables.";
  } else if (input) {
    SIMURGH_RETURN_IF_ERROR(DescribeRows(options, model, *std::move(input), report));
  } else if (!options.compare.empty() || !options.by.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--", options.compare.empty() ? "by" : "compare",
                                                   " needs rows: ", report.input_problem));
  }
  report.findings = FindingsOf(report);
  report.headline = HeadlineOf(report);
  report.course = CourseOf(report);
  if (json != nullptr) {
    SIMURGH_RETURN_IF_ERROR(json->Append(ReportJson(report) + "\n"));
    SIMURGH_RETURN_IF_ERROR(json->Finish());
  }
  SIMURGH_RETURN_IF_ERROR(page->Append(ReportPage(report)));
  SIMURGH_RETURN_IF_ERROR(page->Finish());
  std::cerr << "simurgh: " << report.headline << "\n";
  if (options.output != "-") std::cerr << "simurgh: written: " << options.output << "\n";
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunReportCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  ReportOptions own;
  std::string by;
  po::options_description options("Options");
  options.add_options()("step", po::value(&own.step)->value_name("N"),
                        "use the checkpoint of step N, or with `latest` the newest, not the best "
                        "one")("input", po::value(&own.input)->value_name("FILE"),
                               "read rows from FILE, a folder or a pattern; -: stdin; default: the "
                               "test files of the configuration")(
      "compare", po::value(&own.compare)->value_name("OTHER"),
      "predict the rows with this model, too, and compare")(
      "by", po::value(&by)->value_name("COLUMN,..."),
      "show parts of the rows by the values of these columns")(
      "output", po::value(&own.output)->value_name("FILE"),
      "write the page to FILE (default: report.html); -: stdout")(
      "json", po::value(&own.json)->value_name("FILE"),
      "also write all numbers of the page to FILE as one JSON object; -: stdout")(
      "importance-rows", po::value(&own.importance_rows)->value_name("N"),
      "measure the importance of columns on N rows; 0: leave it out")(
      "repeats", po::value(&own.repeats)->value_name("N"),
      "permute each column N times (default: 5)")(
      "threads", po::value(&own.threads)->value_name("N"),
      "use N threads; 0, the default: one per processor")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat")(
      "allow-plugins", po::bool_switch(&own.allow_plugins), kAllowPlugins);
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (words.empty()) return OptionProblem("report: MODEL is missing");
    own.model = words[0];
    while (own.model.size() > 1 && own.model.ends_with('/')) own.model.pop_back();
    if (own.output == own.json) {
      return OptionProblem(absl::StrCat("--output and --json are both ",
                                        own.output == "-" ? "stdout" : own.output,
                                        "; name a file for one of them"));
    }
    if (own.importance_rows < -1) {
      return OptionProblem(absl::StrCat("--importance-rows: ", own.importance_rows,
                                        " is out of range; use 0 or more"));
    }
    if (own.threads < 0 || own.threads > kMaxPredictThreads) {
      return OptionProblem(absl::StrCat("--threads: ", own.threads, " is out of range; use 1 to ",
                                        kMaxPredictThreads, ", or 0 for one per processor"));
    }
    if (own.repeats == 0 || own.repeats > kMaxRepeats) {
      return OptionProblem(
          absl::StrCat("--repeats: ", own.repeats, " is out of range; use 1 to ", kMaxRepeats));
    }
    if (!own.compare.empty() && own.input == "-") {
      return OptionProblem("--compare reads the rows twice, but --input is stdin; name a file");
    }
    if (!by.empty()) own.by = absl::StrSplit(by, ',');
    return MakeReport(own);
  };
  return RunCommand(
      argc, argv,
      {"report: writes a page about a model and its predictions", kReportUsage, kReportNotes},
      options, 1, run);
}

}  // namespace simurgh
