#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "services/nn_worker/saved_model.h"
#include "services/nn_worker/train_report.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/checkpoint_choice.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/prediction_file.h"
#include "services/simurgh/progress_line.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/data/row_text.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kUsage[] =
    "simurgh predict: predicts rows with a trained model\n\n"
    "Usage:\n"
    "  simurgh predict --model MODEL --input FILE --output FILE [--columns NAME,...]\n"
    "  simurgh predict --model MODEL --input FILE --evaluate\n\n";

constexpr char kNotes[] =
    "The input has the format of the training data, also compressed by gzip or zstd. Columns of\n"
    "labels may be missing unless --evaluate is given. The output is CSV: a header, then a line "
    "for\n"
    "each row of the input, in order: the named columns, then p, the probability of label 1, "
    "or\n"
    "p_LABEL for each of several labels. A row that cannot be parsed has no probability; stderr "
    "has\n"
    "their number and the first reasons. Blank lines are not rows.\n\n"
    "Example:\n"
    "  simurgh predict --model /models/adult --input new.csv --output scores.csv --columns age\n\n"
    "Exit codes: 0 done, 2 bad arguments or configuration, 3 damaged or failed otherwise.\n";

constexpr uint32_t kMaxThreads = 256;

struct Options {
  CheckpointChoice checkpoint;
  std::string input;
  std::string output;  // Empty: none.
  std::vector<std::string> columns;
  bool evaluates = false;
  uint32_t threads = 0;
  std::vector<std::string> overrides;
};

// Limits the process to `threads` of its processors, or counts them for 0. Returns their number.
StatusOr<uint32_t> UseProcessors(uint32_t threads) {
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof(own), &own) != 0) {
    return ErrnoStatus(errno, "cannot read the processors of the process");
  }
  const auto all = static_cast<uint32_t>(CPU_COUNT(&own));
  if (threads == 0 || threads >= all) return std::min(threads == 0 ? all : threads, kMaxThreads);
  cpu_set_t some;
  CPU_ZERO(&some);
  for (size_t cpu = 0, used = 0; used < threads; ++cpu) {
    if (!CPU_ISSET(cpu, &own)) continue;
    CPU_SET(cpu, &some);
    ++used;
  }
  if (sched_setaffinity(0, sizeof(some), &some) == 0) return threads;
  return ErrnoStatus(errno, "--threads: cannot limit the processors");
}

std::string HeaderOf(const Options& options, const std::vector<std::string>& labels) {
  std::string header;
  for (const std::string& column : options.columns) {
    AppendCsvCell(column, header);
    header.push_back(',');
  }
  for (size_t task = 0; task < labels.size(); ++task) {
    if (task > 0) header.push_back(',');
    AppendCsvCell(labels.size() == 1 ? "p" : absl::StrCat("p_", labels[task]), header);
  }
  header.push_back('\n');
  return header;
}

Status Predict(const Options& options) {
  SIMURGH_ASSIGN_OR_RETURN(const uint32_t threads, UseProcessors(options.threads));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  ProgressLine line;
  SIMURGH_ASSIGN_OR_RETURN(
      const auto model,
      SavedModel::Load(checkpoint, threads, options.overrides, [&](uint64_t rows, uint64_t all) {
        line.Show("loading", rows, absl::StrCat(" of=", all));
        return absl::OkStatus();
      }));
  line.End();
  const std::vector<std::string> labels = LabelColumns(model->config().data);
  std::optional<RowText> text;
  if (!options.columns.empty()) {
    StatusOr<RowText> chosen = RowText::Create(model->config().data, options.columns);
    if (!chosen.ok()) return Annotate(chosen.status(), "--columns");
    text.emplace(*std::move(chosen));
  }
  PredictedRows rows(std::move(text), labels.size());
  std::unique_ptr<OutputFile> output;
  if (!options.output.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(output, OutputFile::Open(options.output));
    SIMURGH_RETURN_IF_ERROR(output->Append(HeaderOf(options, labels)));
  }
  std::string lines;
  const auto write = [&]() -> Status {
    if (output == nullptr) return absl::OkStatus();
    const Status written = output->Append(lines);
    // The end of a reader of stdin may be far away.
    if (absl::IsCancelled(written)) std::_Exit(static_cast<int>(ExitCode::kRuntimeFailure));
    return written;
  };
  uint64_t predicted = 0;
  const auto sink = [&](const Batch& batch, std::span<const float> probabilities) {
    lines.clear();
    rows.Take(probabilities, lines);
    predicted += batch.size();
    line.Show("predicting", predicted + rows.bad_rows(), "");
    return write();
  };
  ReadOptions reading{.ignore_labels = !options.evaluates, .allow_pipes = true};
  reading.on_row = [&rows](std::string_view row, bool in_batch) { rows.Add(row, in_batch); };
  SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result,
                           model->Predict(options.input == "-" ? "/dev/stdin" : options.input,
                                          reading, options.evaluates, sink));
  const double seconds = line.seconds();
  line.End();
  lines.clear();
  rows.TakeRest(lines);
  SIMURGH_RETURN_IF_ERROR(write());
  if (output != nullptr) SIMURGH_RETURN_IF_ERROR(output->Finish());
  const uint64_t all_rows = predicted + rows.bad_rows();
  std::fprintf(stderr, "simurgh: predicted: rows=%llu bad_rows=%llu seconds=%.2f rows_per_s=%.0f\n",
               static_cast<unsigned long long>(all_rows),
               static_cast<unsigned long long>(rows.bad_rows()), seconds,
               static_cast<double>(all_rows) / seconds);
  if (options.evaluates) {
    (options.output == "-" ? std::cerr : std::cout) << TestResult(result, labels) << "\n";
  }
  return absl::OkStatus();
}

// Returns nothing after --help.
StatusOr<std::optional<Options>> Parse(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  Options own;
  std::string columns;
  po::options_description options("Options");
  options.add_options()("help", "print this help")("version", "print the version");
  own.checkpoint.AddTo(options);
  options.add_options()("input", po::value(&own.input)->value_name("FILE"),
                        "read rows from FILE; -: stdin")(
      "output", po::value(&own.output)->value_name("FILE"),
      "write predictions to FILE, which appears when it is complete; -: stdout")(
      "columns", po::value(&columns)->value_name("NAME,..."),
      "copy these columns of the input to the output")(
      "evaluate", po::bool_switch(&own.evaluates), "compare with the labels: print AUC and loss")(
      "threads", po::value(&own.threads)->value_name("N"), "use N processors (default: all)")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat");
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs,
      ParseCommandLine(argc, argv, {"simurgh", kUsage, kNotes}, options, std::cout));
  if (!runs) return std::nullopt;
  if (own.checkpoint.model.empty()) return OptionProblem("--model is missing");
  if (own.input.empty()) return OptionProblem("--input is missing");
  if (own.output.empty() && !own.evaluates) {
    return OptionProblem("--output is missing; name a file, or use --evaluate");
  }
  if (!columns.empty()) own.columns = absl::StrSplit(columns, ',');
  return own;
}

}  // namespace

ExitCode RunPredictCommand(int argc, const char* const* argv) {
  const StatusOr<std::optional<Options>> options = Parse(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (!options->has_value()) return ExitCode::kOk;
  if (const Status ready = InitLogging("simurgh", "warn"); !ready.ok()) return Fail(ready);
  std::signal(SIGPIPE, SIG_IGN);  // A write returns the error.
  const Status status = Predict(**options);
  return status.ok() ? ExitCode::kOk : Fail(status);
}

}  // namespace simurgh
