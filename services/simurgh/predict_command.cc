#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "services/nn_worker/network_description.h"
#include "services/nn_worker/train_report.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "services/simurgh/progress.h"
#include "simurgh/base/log.h"
#include "simurgh/base/mutex.h"
#include "simurgh/collective/collective.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/serve/model_version.h"
#include "simurgh/serve/predictor.h"
#include "simurgh/telemetry/logging.h"
#include "simurgh/tensor/finite.h"
#include "simurgh/train/dense_weights.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {
namespace {

constexpr char kUsage[] =
    "  simurgh predict --model MODEL --input FILE --output FILE [--columns NAME,...]\n"
    "  simurgh predict --model MODEL --input FILE --evaluate\n";

constexpr char kNotes[] =
    "The input has the format of the training data, also compressed by gzip or zstd. Of Parquet "
    "and\n"
    "Arrow data it may be a folder, a pattern or a URI. Columns of labels may be missing unless\n"
    "--evaluate is given. The output is CSV: a header, then a line for\n"
    "each row of the input, in order: the named columns, then p, the probability of label 1 or "
    "the\n"
    "predicted number, or p_LABEL for each of several labels. A row that cannot be parsed has no\n"
    "prediction; stderr has their number and the first reasons. Blank lines are not rows.\n\n"
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
  bool json = false;
  int64_t threads = 0;  // 0: one per processor.
  std::vector<std::string> overrides;
};

std::string HeaderOf(const Options& options, const std::vector<std::string>& labels) {
  std::vector<std::string> names = options.columns;
  std::ranges::move(OutputNames(labels), std::back_inserter(names));
  std::string header;
  for (const std::string& name : names) {
    if (!header.empty()) header.push_back(',');
    AppendCsvCell(name, header);
  }
  return header + "\n";
}

StatusOr<uint32_t> ThreadsOf(const Options& options) {
  if (options.threads > 0) return static_cast<uint32_t>(options.threads);
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof(own), &own) != 0) {
    return ErrnoStatus(errno, "cannot read the processors of the process");
  }
  return std::min(static_cast<uint32_t>(CPU_COUNT(&own)), kMaxThreads);
}

Status CheckColumns(const Options& options, const DataConfig& data) {
  if (options.columns.empty()) return absl::OkStatus();
  return RowText::Create(data, options.columns).status();
}

// Rows of the input, and what becomes of them.
struct Chunk {
  static constexpr size_t kRows = 1'024;
  static constexpr size_t kBytes = size_t{4} << 20;

  uint64_t number = 0;         // From 0.
  std::string text;            // Of all rows.
  std::vector<size_t> ends;    // By row: the end of its line in `text`.
  std::vector<bool> is_whole;  // By row: see Line.
  std::vector<size_t> lines;   // By row: the number of its line.
  std::vector<bool> is_good;   // By row: it could be parsed.

  std::string_view row(size_t index) const {
    const size_t first = index == 0 ? 0 : ends[index - 1];
    return std::string_view(text).substr(first, ends[index] - first);
  }

  std::string output;
  Batch batch;
  std::vector<float> probabilities;
  std::vector<std::string> problems;  // Of the first bad rows.
  uint64_t bad_rows = 0;
};

// Predicts the rows of a file with several threads. Each reads the next chunk, predicts it, and
// writes the result when it is its turn.
class FilePrediction {
 public:
  FilePrediction(const Options& options, std::shared_ptr<const ModelVersion> model,
                 std::string input, OutputFile* output)
      : options_(options),
        input_(std::move(input)),
        model_(std::move(model)),
        tasks_(model_->format().labels.size()),
        metrics_(model_->config().model.tasks, GroupFeature(model_->config()),
                 InputsOf(model_->config()).has_sample_weights),
        output_(output) {}

  // Opens the input.
  Status Open() {
    MutexLock lock(read_mutex_);
    const ReadOptions reading{.ignore_labels = !options_.evaluates, .allow_pipes = true};
    if (IsArrow(model_->config().data)) return OpenReader(reading);
    SIMURGH_ASSIGN_OR_RETURN(RowLines lines,
                             RowLines::Open(model_->config().data, {input_}, reading));
    if (lines.columns() != nullptr) columns_ = *lines.columns();
    lines_.emplace(std::move(lines));
    return absl::OkStatus();
  }

  Status Run(uint32_t threads) {
    std::vector<std::jthread> others;
    for (uint32_t i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
    Work();
    others.clear();
    seconds_ = line_.seconds();
    line_.End();
    MutexLock lock(turn_mutex_);
    return result_;
  }

  uint64_t rows() const { return rows_; }
  uint64_t bad_rows() const { return bad_rows_; }
  double seconds() const { return seconds_; }
  StatusOr<EvaluationResult> Evaluate() {
    MutexLock lock(turn_mutex_);
    return metrics_.Compute(*NewLocalCollective());
  }

 private:
  // Opens an input without lines, whose rows are parsed as they are read.
  Status OpenReader(ReadOptions reading) ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_) {
    ClusterConfig config = model_->config();
    config.data.on_bad_row = DataConfig::OnBadRow::kSkip;  // The reader logs them.
    config.data.max_bad_share = 1;
    reading.copies_skipped = true;
    reading.threads = ReadingThreads(config.data);
    // Called by Next(), with the mutex held.
    reading.on_row = [this](std::string_view line, bool in_batch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      Chunk& chunk = *observed_;
      if (!options_.columns.empty()) chunk.text.append(line);
      chunk.ends.push_back(chunk.text.size());
      chunk.lines.push_back(++rows_read_);
      chunk.is_good.push_back(in_batch);
    };
    const std::vector<std::string> files = NamedFiles(config.data.format, input_);
    if (files.empty()) {
      return absl::NotFoundError(
          absl::StrCat(input_, ": no file in it has a name that ends in .parquet"));
    }
    SIMURGH_ASSIGN_OR_RETURN(
        reader_, OpenBatchReader(config.data, config.features, files, Chunk::kRows, reading));
    return absl::OkStatus();
  }

  // See RowLines::columns().
  const FileColumns* columns() const { return columns_ ? &*columns_ : nullptr; }

  void Work() {
    const Status status = Predict();
    MutexLock lock(turn_mutex_);
    if (result_.ok()) result_ = status;
    if (!status.ok()) failed_ = true;
    turn_.NotifyAll();
  }

  Status Predict() {
    SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(*model_, !options_.evaluates));
    std::optional<RowText> text;
    if (!options_.columns.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(RowText chosen, RowText::Create(LinesOf(model_->config().data),
                                                               options_.columns, columns()));
      text.emplace(std::move(chosen));
    }
    for (Chunk chunk; !failed_;) {
      SIMURGH_RETURN_IF_ERROR(Read(chunk));
      if (chunk.ends.empty()) break;
      SIMURGH_RETURN_IF_ERROR(PredictChunk(predictor, text, chunk));
      SIMURGH_RETURN_IF_ERROR(Write(chunk));
    }
    return absl::OkStatus();
  }

  // Reads the next rows; none at the end.
  Status Read(Chunk& chunk) {
    chunk.text.clear();
    chunk.ends.clear();
    chunk.is_whole.clear();
    chunk.lines.clear();
    chunk.is_good.clear();
    MutexLock lock(read_mutex_);
    if (reader_ != nullptr) {
      observed_ = &chunk;
      SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader_->Next());
      chunk.batch = batch ? *std::move(batch) : Batch();
      chunk.number = next_chunk_++;
      return absl::OkStatus();
    }
    while (chunk.ends.size() < Chunk::kRows && chunk.text.size() < Chunk::kBytes) {
      SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines_->Next());
      if (!line) break;
      chunk.lines.push_back(lines_->line_number());
      chunk.text.append(line->text);
      chunk.ends.push_back(chunk.text.size());
      chunk.is_whole.push_back(line->whole);
    }
    chunk.number = next_chunk_++;
    return absl::OkStatus();
  }

  Status PredictChunk(Predictor& predictor, std::optional<RowText>& text, Chunk& chunk) {
    chunk.bad_rows = 0;
    chunk.problems.clear();
    chunk.output.clear();
    const bool is_parsed = !chunk.is_good.empty();
    if (is_parsed) chunk.bad_rows = std::ranges::count(chunk.is_good, false);
    for (size_t row = 0; !is_parsed && row < chunk.ends.size(); ++row) {
      const Status parsed = chunk.is_whole[row]
                                ? predictor.rows().AddLine(chunk.row(row), columns())
                                : LongLineError();
      chunk.is_good.push_back(parsed.ok());
      if (parsed.ok()) continue;
      if (!absl::IsInvalidArgument(parsed)) return parsed;
      if (++chunk.bad_rows > kLoggedRows) continue;
      chunk.problems.push_back(
          absl::StrCat(input_, ":", chunk.lines[row], ": ", std::string(parsed.message())));
    }
    if (!is_parsed || chunk.batch.sparse == nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(chunk.batch, predictor.rows().Build());
    }
    SIMURGH_RETURN_IF_ERROR(predictor.Predict(*model_, chunk.batch, chunk.probabilities));
    if (!AllFinite(chunk.probabilities)) {
      return absl::FailedPreconditionError(
          absl::StrCat(input_, ":", chunk.lines[0],
                       " and the rows behind: a prediction is "
                       "not finite; the weights or the dense values are too large"));
    }
    if (output_ == nullptr) return absl::OkStatus();
    size_t next = 0;
    for (size_t row = 0; row < chunk.is_good.size(); ++row) {
      if (text) text->AppendCells(chunk.row(row), chunk.output);
      for (size_t task = 0; task < tasks_; ++task) {
        if (task > 0) chunk.output.push_back(',');
        if (!chunk.is_good[row]) continue;
        std::array<char, 32> digits;
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                       chunk.probabilities[next++]);
        chunk.output.append(digits.data(), end.ptr);
      }
      chunk.output.push_back('\n');
    }
    return absl::OkStatus();
  }

  Status Write(Chunk& chunk) {
    MutexLock lock(turn_mutex_);
    while (written_ != chunk.number && !failed_) turn_.Wait(turn_mutex_);
    if (failed_) return absl::OkStatus();
    for (const std::string& problem : chunk.problems) {
      if (++problems_ > kLoggedRows) break;
      spdlog::warn("row skipped: {}", problem);
      if (problems_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
    }
    rows_ += chunk.ends.size();
    bad_rows_ += chunk.bad_rows;
    if (options_.evaluates) metrics_.Add(chunk.batch, chunk.probabilities);
    line_.Show("predicting", rows_, "");
    ++written_;
    turn_.NotifyAll();
    if (output_ == nullptr) return absl::OkStatus();
    const Status written = output_->Append(chunk.output);
    // The end of a reader of stdin may be far away.
    if (absl::IsCancelled(written)) std::_Exit(static_cast<int>(ExitCode::kRuntimeFailure));
    return written;
  }

  static constexpr uint64_t kLoggedRows = 10;

  const Options& options_;
  const std::string input_;
  const std::shared_ptr<const ModelVersion> model_;
  const size_t tasks_;
  PredictionMetrics metrics_ ABSL_GUARDED_BY(turn_mutex_);
  std::optional<FileColumns> columns_;  // Set by Open().
  Mutex read_mutex_;
  std::optional<RowLines> lines_ ABSL_GUARDED_BY(read_mutex_);        // Either these,
  std::unique_ptr<BatchReader> reader_ ABSL_GUARDED_BY(read_mutex_);  // or rows without lines.
  Chunk* observed_ ABSL_GUARDED_BY(read_mutex_) = nullptr;            // Gets the reader's rows.
  uint64_t rows_read_ ABSL_GUARDED_BY(read_mutex_) = 0;
  uint64_t next_chunk_ ABSL_GUARDED_BY(read_mutex_) = 0;
  Mutex turn_mutex_;
  CondVar turn_;
  OutputFile* const output_;
  ProgressLine line_;
  double seconds_ = 0;
  uint64_t written_ ABSL_GUARDED_BY(turn_mutex_) = 0;  // Chunks.
  uint64_t rows_ = 0;
  uint64_t bad_rows_ = 0;
  uint64_t problems_ = 0;
  Status result_ ABSL_GUARDED_BY(turn_mutex_);
  std::atomic<bool> failed_ = false;
};

StatusOr<ExitCode> Predict(const Options& options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
  std::signal(SIGPIPE, SIG_IGN);  // A write returns the error.
  SIMURGH_ASSIGN_OR_RETURN(const uint32_t threads, ThreadsOf(options));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  ProgressLine loading;
  SIMURGH_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelVersion> model,
                           ModelVersion::Load(checkpoint, {.overrides = options.overrides},
                                              [&](uint64_t rows, uint64_t all) {
                                                loading.Show("loading", rows,
                                                             absl::StrCat(" of=", all));
                                                return absl::OkStatus();
                                              }));
  loading.End();
  const std::vector<std::string>& labels = model->format().labels;
  if (const Status columns = CheckColumns(options, model->config().data); !columns.ok()) {
    return Annotate(columns, "--columns");
  }
  std::unique_ptr<OutputFile> output;
  if (!options.output.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(output, OutputFile::Open(options.output));
    SIMURGH_RETURN_IF_ERROR(output->Append(HeaderOf(options, labels)));
  }
  FilePrediction prediction(options, model, options.input == "-" ? "/dev/stdin" : options.input,
                            output.get());
  SIMURGH_RETURN_IF_ERROR(prediction.Open());
  SIMURGH_RETURN_IF_ERROR(prediction.Run(threads));
  const double seconds = prediction.seconds();
  if (output != nullptr) SIMURGH_RETURN_IF_ERROR(output->Finish());
  std::fprintf(stderr, "simurgh: predicted: rows=%llu bad_rows=%llu seconds=%.2f rows_per_s=%.0f\n",
               static_cast<unsigned long long>(prediction.rows()),
               static_cast<unsigned long long>(prediction.bad_rows()), seconds,
               static_cast<double>(prediction.rows()) / seconds);
  if (!options.evaluates) return ExitCode::kOk;
  SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result, prediction.Evaluate());
  std::ostream& out = options.output == "-" ? std::cerr : std::cout;
  if (!options.json) {
    out << TestResult(result, labels) << "\n";
    return ExitCode::kOk;
  }
  nlohmann::ordered_json json = ResultJson(TestResult(result, labels));
  json["test_calibration"] = result.calibration;
  json["rows"] = prediction.rows();
  json["bad_rows"] = prediction.bad_rows();
  PrintJson(json, out);
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunPredictCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  Options own;
  std::string columns;
  po::options_description options("Options");
  options.add_options()("version", "print the version");
  own.checkpoint.AddTo(options);
  options.add_options()("input", po::value(&own.input)->value_name("FILE"),
                        "read rows from FILE; -: stdin")(
      "output", po::value(&own.output)->value_name("FILE"),
      "write predictions to FILE, which appears when it is complete; -: stdout")(
      "columns", po::value(&columns)->value_name("NAME,..."),
      "copy these columns of the input to the output")(
      "evaluate", po::bool_switch(&own.evaluates),
      "compare with the labels: print loss and metrics")(
      "threads", po::value(&own.threads)->value_name("N"),
      "use N threads; 0, the default: one per processor")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat");
  AddJsonOption(options, &own.json);
  const auto run = [&](const auto& /*words*/) -> StatusOr<ExitCode> {
    if (own.checkpoint.model.empty()) return OptionProblem("--model is missing");
    if (own.input.empty()) return OptionProblem("--input is missing");
    if (own.output.empty() && !own.evaluates) {
      return OptionProblem("--output is missing; name a file, or use --evaluate");
    }
    if (own.json && !own.evaluates) return OptionProblem("--json needs --evaluate");
    if (own.threads < 0 || own.threads > kMaxThreads) {
      return OptionProblem(absl::StrCat("--threads: ", own.threads, " is out of range; use 1 to ",
                                        kMaxThreads, ", or 0 for one per processor"));
    }
    if (!columns.empty()) own.columns = absl::StrSplit(columns, ',');
    return Predict(own);
  };
  return RunCommand(argc, argv, {"predict: predicts rows with a trained model", kUsage, kNotes},
                    options, 0, run);
}

}  // namespace simurgh
