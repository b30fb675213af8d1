#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "retrieval/training_ranking.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "collective/collective.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_text.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "report/importance.h"
#include "report/report_json.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/train_report.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/file_prediction.h"
#include "services/simurgh/input_reports.h"
#include "services/simurgh/output.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/scan_input.h"
#include "telemetry/logging.h"
#include "train/dense_weights.h"
#include "train/evaluator.h"

namespace simurgh {
namespace {

constexpr char kUsage[] =
    R"(  simurgh predict --model MODEL --input FILE --output FILE [--columns NAME,...]
  simurgh predict --model MODEL --input FILE --evaluate
  simurgh predict --model MODEL --input FILE --importance
)";

constexpr char kPredictNotes[] =
    R"(The input is a file, a folder, whose files are read by name, or a pattern in quotes. Of
Parquet data it may be a URI. It has the format of the training data. If columns have names, the
ending tells the format: .csv, .tsv, .json, .jsonl, .ndjson, .parquet, .arrow, also with .gz or
.zst. Columns may have another order, and names in another case. Columns of labels may be missing
unless --evaluate is given.

The output is CSV: a header, then a line for each row of the input, in order. A line has the named
columns as they are, then p, the probability of label 1 or the predicted number. With several
labels it has p_LABEL for each of them. A row that cannot be parsed has no prediction; stderr has
their number and the first reasons. Blank lines are not rows.

The last line on stderr has unseen_ids, the share of ids that have no row in the model. From
5 % in a feature on, a line has the share of each; from 50 % on, a warning names the feature.
A feature without any id has a warning, too.

--importance measures how much worse the predictions get when a column's cells are permuted
among the rows: the increase of the log loss, or RMSE, and the decrease of the AUC. Cells are
permuted before feature processing, so that crosses and ranges of a column move with it. It has
a line for each column that the model reads. Its interval holds the true value with a
confidence of 95 %, and counts the choice of the rows, too. Columns that tell the same share
their importance: --groups permutes such columns together. Weights of rows count. Equal rows
give equal numbers. It takes some 20 s on two processors: a uniform sample of 1,000 to 50,000
rows, by the number of columns, is predicted --repeats times for each column.

Examples:
  simurgh predict --model /models/adult --input new.csv --output scores.csv --columns age
  simurgh predict --model /models/adult --input test.csv --importance --groups city,zip+street

--evaluate of a model of two towers ranks all items of data.items for each user: recall@k,
hit_rate@k, ndcg@k and mrr. --set data.items=FILE names other items.

Exit codes:
  0  done; some rows may have no prediction
  2  bad arguments, model or configuration, or all rows are bad
  3  damaged, missing or failed otherwise
)";

struct PredictOptions {
  CheckpointChoice checkpoint;
  std::string input;
  std::string output;  // Path of the predictions; empty: none.
  std::vector<std::string> columns;
  bool evaluates = false;
  bool measures_importance = false;
  std::vector<ColumnGroup> groups;
  int64_t importance_rows = 0;  // 0: DefaultImportanceRows().
  uint32_t repeats = 5;
  bool json = false;
  int64_t threads = 0;  // 0: one per processor.
  std::vector<std::string> overrides;
  bool allow_plugins = false;
};

std::string HeaderOf(const PredictOptions& options, const std::vector<std::string>& labels) {
  std::vector<std::string> names = options.columns;
  std::ranges::move(OutputNames(labels), std::back_inserter(names));
  std::string header;
  for (const std::string& name : names) {
    if (!header.empty()) header.push_back(',');
    AppendCsvCell(name, header);
  }
  return header + "\n";
}

// Errors: INVALID_ARGUMENT for a column with the name of a prediction.
Status CheckNames(const std::vector<std::string>& columns, const std::vector<std::string>& labels) {
  for (const std::string& name : OutputNames(labels)) {
    if (std::ranges::find(columns, name) == columns.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--columns ", name,
                     ": it would be there twice, since predictions have this "
                     "name; leave it out, or rename the column"));
  }
  return absl::OkStatus();
}

Status CheckColumns(const PredictOptions& options, const DataConfig& data) {
  if (options.columns.empty()) return absl::OkStatus();
  return RowText::Create(data, options.columns).status();
}

// Appends the lines of the output for predicted rows. text: cells of the columns to copy, or null.
void AppendLines(const PredictedRows& rows, size_t labels, RowText* text, std::string& output) {
  size_t next = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (text != nullptr) text->AppendCells(rows.row(row), output);
    for (size_t label = 0; label < labels; ++label) {
      if (label > 0) output.push_back(',');
      if (!rows.is_good[row]) continue;
      std::array<char, 32> digits;
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), rows.predictions[next++]);
      output.append(digits.data(), end.ptr);
    }
    output.push_back('\n');
  }
}

// Prints a line for each column and label.
void PrintImportance(const Importance& importance, const std::vector<std::string>& labels) {
  size_t width = std::string_view("column").size();
  for (const ColumnImportance& column : importance.columns) {
    width = std::max(width, absl::StrJoin(column.columns, "+").size());
  }
  const auto text = [](const PermutationEffect& effect) {
    if (std::isnan(effect.mean)) return absl::StrFormat("%10s %26s", "undefined", "");
    if (!effect.interval.is_known()) return absl::StrFormat("%10.5f %26s", effect.mean, "unknown");
    return absl::StrFormat("%10.5f %12.5f to %10.5f", effect.mean, effect.interval.low,
                           effect.interval.high);
  };
  for (size_t label = 0; label < labels.size(); ++label) {
    const Metrics& metrics = importance.metrics[label];
    const bool is_regression = std::isnan(metrics.log_loss);
    if (labels.size() > 1) std::cout << "label=" << labels[label] << " ";
    std::cout << absl::StrFormat("rows=%d repeats=%d %s\n", importance.rows, importance.repeats,
                                 is_regression
                                     ? absl::StrCat("rmse=", MetricText(metrics.rmse))
                                     : absl::StrCat("logloss=", MetricText(metrics.log_loss),
                                                    " auc=", MetricText(metrics.auc)));
    std::cout << absl::StrFormat(
                     "%-*s  %-37s", width, "column",
                     is_regression ? "increase of rmse, 95 %" : "increase of logloss, 95 %")
              << (is_regression ? "" : "  decrease of auc, 95 %") << "\n";
    for (const ColumnImportance& column : importance.columns) {
      const PermutationEffects& effects = column.effects[label];
      std::cout << absl::StrFormat("%-*s  %s", width, absl::StrJoin(column.columns, "+"),
                                   text(effects.loss))
                << (is_regression ? "" : absl::StrCat("  ", text(effects.auc))) << "\n";
    }
  }
}

StatusOr<ExitCode> RunImportance(const PredictOptions& options,
                                 const std::shared_ptr<const ModelVersion>& model,
                                 const PredictInput& input, uint32_t threads) {
  const std::vector<std::string>& labels = model->format().labels;
  std::vector<ColumnGroup> named;
  for (const ColumnGroup& group : options.groups) named.push_back(OwnNames(group, input.data));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<ColumnGroup> groups, ColumnGroupsOf(*model, named));
  const size_t most = MostImportanceRows(groups.size(), options.repeats, labels.size());
  if (options.importance_rows > static_cast<int64_t>(most)) {
    return OptionProblem(
        absl::StrCat("--importance-rows: ", options.importance_rows,
                     " is out of range; with these columns and --repeats use 2 to ", most));
  }
  const size_t rows = options.importance_rows > 0
                          ? static_cast<size_t>(options.importance_rows)
                          : std::min(DefaultImportanceRows(groups.size(), options.repeats), most);
  SIMURGH_ASSIGN_OR_RETURN(const ScannedInput scanned,
                           ScanInput(model, input,
                                     {.name = options.input,
                                      .threads = threads,
                                      .scan = {.sample_rows = 0, .importance_rows = rows}}));
  const ImportanceRows& sampled = scanned.scan->importance_rows();
  ProgressLine line;
  SIMURGH_ASSIGN_OR_RETURN(
      const Importance importance,
      MeasureImportance(*model, scanned.input->data, sampled,
                        {.groups = groups,
                         .repeats = options.repeats,
                         .threads = threads,
                         .progress = [&](size_t done) {
                           line.Show("permuting", done, absl::StrCat(" of=", sampled.lines.size()));
                         }}));
  line.End();
  if (options.json) {
    std::cout << ImportanceJson(importance, labels) << "\n";
  } else {
    PrintImportance(importance, labels);
  }
  return ExitCode::kOk;
}

// Prints the result of an evaluation. out: for the result.
void PrintResult(const EvaluationResult& result, const std::vector<std::string>& labels, bool json,
                 uint64_t rows, uint64_t bad_rows, std::ostream& out) {
  if (!json) {
    out << TestResult(result, labels) << "\n";
    return;
  }
  nlohmann::ordered_json all = ResultJson(TestResult(result, labels));
  if (!result.ranking) all["test_calibration"] = result.calibration;
  all["rows"] = rows;
  all["bad_rows"] = bad_rows;
  PrintJson(all, out);
}

// Evaluates a model of two towers.
StatusOr<ExitCode> RunRanking(const PredictOptions& options, const ModelVersion& model,
                              PredictInput input) {
  if (!options.output.empty()) {
    return OptionProblem("--evaluate ranks all items for this model; give --output by itself");
  }
  SIMURGH_ASSIGN_OR_RETURN(RankedRows ranked, RankRows(model, std::move(input)));
  const RankingResult& ranking = ranked.result;
  std::fprintf(stderr,
               "simurgh: ranked: rows=%llu bad_rows=%llu users=%llu items=%llu "
               "unknown_items=%llu\n",
               static_cast<unsigned long long>(ranked.rows),
               static_cast<unsigned long long>(ranked.bad_rows),
               static_cast<unsigned long long>(ranking.users),
               static_cast<unsigned long long>(ranking.items),
               static_cast<unsigned long long>(ranking.unknown_items));
  PrintResult(ResultOf(model.config(), std::move(ranked.result)), model.format().labels,
              options.json, ranked.rows, ranked.bad_rows, std::cout);
  return ExitCode::kOk;
}

StatusOr<ExitCode> Predict(PredictOptions options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
  std::signal(SIGPIPE, SIG_IGN);  // A write to a closed pipe returns the error.
  SIMURGH_ASSIGN_OR_RETURN(const uint32_t threads, PredictThreads(options.threads));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  SIMURGH_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelVersion> model,
                           LoadVersion(checkpoint, options.overrides, options.allow_plugins));
  PrintOverrides(checkpoint, options.overrides, model->config());
  const bool ranks_items = options.evaluates && RanksItems(model->config());
  if (options.measures_importance) SIMURGH_RETURN_IF_ERROR(CheckHasMetrics(model->config()));
  const std::vector<std::string>& labels = model->format().labels;
  SIMURGH_ASSIGN_OR_RETURN(PredictInput input, InputOf(model->config().data, options.input));
  if (ranks_items) return RunRanking(options, *model, std::move(input));
  if (options.measures_importance) return RunImportance(options, model, input, threads);
  SIMURGH_RETURN_IF_ERROR(CheckReplacesNone(input.files, options.output));
  SIMURGH_RETURN_IF_ERROR(CheckNames(options.columns, labels));
  const std::string header = HeaderOf(options, labels);  // Has the names as they are given.
  options.columns = OwnNames(std::move(options.columns), input.data);
  const bool adds_columns = AddColumns(options.columns, input.data);
  if (const Status columns = CheckColumns(options, input.data); !columns.ok()) {
    return Annotate(columns, "--columns");
  }
  std::unique_ptr<OutputFile> output;
  if (!options.output.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(output, OutputFile::Open(options.output));
    SIMURGH_RETURN_IF_ERROR(output->Append(header));
  }
  const bool is_csv = input.data.format == DataConfig::Format::kCsv;
  const ClusterConfig& config = model->config();
  PredictionMetrics metrics(TasksOf(config.model), GroupFeature(config),
                            InputsOf(config).has_sample_weights);
  FarNumbers far_numbers;
  FilePredictionOptions reading{
      .reads_labels = options.evaluates, .columns = options.columns, .adds_columns = adds_columns};
  if (output != nullptr) {
    reading.prepare = [&](PredictedRows& rows, RowText* text) {
      AppendLines(rows, labels.size(), text, rows.output);
      return absl::OkStatus();
    };
  }
  reading.sink = [&](PredictedRows& rows) {
    if (options.evaluates) metrics.Add(rows.batch, rows.predictions);
    far_numbers.Count(rows.batch.dense);
    if (output == nullptr) return absl::OkStatus();
    const Status written = output->Append(rows.output);
    // A thread that reads stdin might not end for long, so the process does not wait for it.
    if (absl::IsCancelled(written)) std::_Exit(static_cast<int>(ExitCode::kRuntimeFailure));
    return written;
  };
  FilePrediction prediction(model, std::move(input), std::move(reading));
  SIMURGH_RETURN_IF_ERROR(prediction.Open());
  SIMURGH_RETURN_IF_ERROR(prediction.Run(threads));
  const double seconds = prediction.seconds();
  far_numbers.Report(config.data);
  ReportUnseenIds(config.features, prediction.id_counts(), is_csv);
  const double unseen = UnseenShare(prediction.id_counts());
  std::fprintf(stderr,
               "simurgh: predicted: rows=%llu bad_rows=%llu unseen_ids=%.1f%% seconds=%.2f "
               "rows_per_s=%.0f\n",
               static_cast<unsigned long long>(prediction.rows()),
               static_cast<unsigned long long>(prediction.bad_rows()), 100 * unseen, seconds,
               static_cast<double>(prediction.rows()) / seconds);
  SIMURGH_RETURN_IF_ERROR(prediction.CheckRows(options.input));
  if (output != nullptr) SIMURGH_RETURN_IF_ERROR(output->Finish());
  if (!options.evaluates) return ExitCode::kOk;
  SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result, metrics.Compute(*NewLocalCollective()));
  std::ostream& out = options.output == "-" ? std::cerr : std::cout;
  PrintResult(result, labels, options.json, prediction.rows(), prediction.bad_rows(), out);
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunPredictCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  PredictOptions own;
  std::string columns;
  std::string groups;
  po::options_description options("Options");
  options.add_options()("version", "print the version");
  own.checkpoint.AddTo(options);
  options.add_options()("input", po::value(&own.input)->value_name("FILE"),
                        "read rows from FILE, a folder or a pattern; -: stdin")(
      "output", po::value(&own.output)->value_name("FILE"),
      "write predictions to FILE, which appears when it is complete; -: stdout")(
      "columns", po::value(&columns)->value_name("NAME,..."),
      "copy these columns of the input to the output, also others than the training's")(
      "evaluate", po::bool_switch(&own.evaluates),
      "compare with the labels: print loss and metrics")(
      "importance", po::bool_switch(&own.measures_importance),
      "print how much worse the predictions get without each column")(
      "groups", po::value(&groups)->value_name("A+B,..."),
      "with --importance: permute the columns A and B together")(
      "importance-rows", po::value(&own.importance_rows)->value_name("N"),
      "with --importance: measure on N rows (default: 1,000 to 50,000)")(
      "repeats", po::value(&own.repeats)->value_name("N"),
      "with --importance: permute each column N times (default: 5)")(
      "threads", po::value(&own.threads)->value_name("N"),
      "use N threads; 0, the default: one per processor")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat")(
      "allow-plugins", po::bool_switch(&own.allow_plugins), kAllowPlugins);
  AddJsonOption(options, &own.json);
  const auto run = [&](const auto& /*words*/) -> StatusOr<ExitCode> {
    if (own.checkpoint.model.empty()) return OptionProblem("--model is missing");
    if (own.input.empty()) return OptionProblem("--input is missing");
    if (own.measures_importance) {
      if (!own.output.empty() || own.evaluates || !columns.empty()) {
        return OptionProblem("--importance supports neither --output, --columns nor --evaluate");
      }
      if (own.repeats == 0 || own.repeats > kMaxRepeats) {
        return OptionProblem(
            absl::StrCat("--repeats: ", own.repeats, " is out of range; use 1 to ", kMaxRepeats));
      }
      if (own.importance_rows < 0 || own.importance_rows == 1) {
        return OptionProblem(absl::StrCat("--importance-rows: ", own.importance_rows,
                                          " is out of range; use 2 or more"));
      }
    } else if (own.output.empty() && !own.evaluates) {
      return OptionProblem("--output is missing; name a file, or use --evaluate");
    }
    if (!groups.empty() && !own.measures_importance) {
      return OptionProblem("--groups needs --importance");
    }
    if (own.json && !own.evaluates && !own.measures_importance) {
      return OptionProblem("--json needs --evaluate or --importance");
    }
    if (own.threads < 0 || own.threads > kMaxPredictThreads) {
      return OptionProblem(absl::StrCat("--threads: ", own.threads, " is out of range; use 1 to ",
                                        kMaxPredictThreads, ", or 0 for one per processor"));
    }
    if (!columns.empty()) own.columns = absl::StrSplit(columns, ',');
    for (const absl::string_view group : absl::StrSplit(groups, ',', absl::SkipEmpty())) {
      own.groups.push_back(absl::StrSplit(group, '+'));
    }
    return Predict(own);
  };
  return RunCommand(argc, argv,
                    {"predict: predicts rows with a trained model", kUsage, kPredictNotes}, options,
                    0, run);
}

}  // namespace simurgh
