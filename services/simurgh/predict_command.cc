#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
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

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/log.h"
#include "base/mutex.h"
#include "collective/collective.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "services/nn_worker/network_description.h"
#include "services/nn_worker/train_report.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/input_reports.h"
#include "services/simurgh/output.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/progress.h"
#include "telemetry/logging.h"
#include "tensor/finite.h"
#include "train/dense_weights.h"
#include "train/evaluator.h"

namespace simurgh {
namespace {

constexpr char kUsage[] =
    R"(  simurgh predict --model MODEL --input FILE --output FILE [--columns NAME,...]
  simurgh predict --model MODEL --input FILE --evaluate
)";

constexpr char kNotes[] =
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

Example:
  simurgh predict --model /models/adult --input new.csv --output scores.csv --columns age

Exit codes:
  0  done; some rows may have no prediction
  2  bad arguments, model or configuration, or all rows are bad
  3  damaged, missing or failed otherwise
)";

constexpr uint32_t kMaxThreads = 256;

struct Options {
  CheckpointChoice checkpoint;
  std::string input;
  std::string output;  // Path of the predictions; empty: none.
  std::vector<std::string> columns;
  bool evaluates = false;
  bool json = false;
  int64_t threads = 0;  // 0: one per processor.
  std::vector<std::string> overrides;
  bool allow_plugins = false;
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

Status CheckColumns(const Options& options, const DataConfig& data) {
  if (options.columns.empty()) return absl::OkStatus();
  return RowText::Create(data, options.columns).status();
}

// Replaces names of columns by those of the training, where they differ by case only.
std::vector<std::string> OwnNames(std::vector<std::string> names, const DataConfig& data) {
  for (std::string& name : names) {
    if (std::ranges::find(data.columns, name, &ColumnConfig::name) != data.columns.end()) continue;
    for (const ColumnConfig& column : data.columns) {
      if (!absl::EqualsIgnoreCase(name, HeaderName(column))) continue;
      name = column.name;
      break;
    }
  }
  return names;
}

// Adds columns to copy that the training did not have, if the cells of rows have names. Returns
// whether it has added some.
bool AddColumns(const std::vector<std::string>& names, DataConfig& data) {
  if (data.format != DataConfig::Format::kCsv && data.format != DataConfig::Format::kJson) {
    return false;
  }
  const size_t before = data.columns.size();
  for (const std::string& name : names) {
    if (std::ranges::find(data.columns, name, &ColumnConfig::name) != data.columns.end()) continue;
    data.columns.push_back({.name = name, .kind = ColumnConfig::Kind::kSkip});
  }
  return data.columns.size() > before;
}

// Rows of the input, and their results.
struct Chunk {
  static constexpr size_t kRows = 1'024;
  static constexpr size_t kBytes = size_t{4} << 20;

  uint64_t number = 0;                         // Counted from 0.
  std::string file;                            // File of all rows.
  std::shared_ptr<const FileColumns> columns;  // See RowLines::columns().
  std::string text;                            // Lines of all rows.
  std::vector<size_t> ends;                    // End of each row's line in `text`.
  std::vector<bool> is_whole;                  // Whether each row is whole, see Line.
  std::vector<size_t> lines;                   // Number of each row's line.
  std::vector<bool> is_good;                   // Whether each row could be parsed.

  std::string_view row(size_t index) const {
    const size_t first = index == 0 ? 0 : ends[index - 1];
    return std::string_view(text).substr(first, ends[index] - first);
  }

  std::string output;
  Batch batch;
  std::vector<float> probabilities;
  std::vector<std::string> problems;  // Problems of the first bad rows.
  uint64_t bad_rows = 0;
};

// Predicts the rows of a file with several threads. Each thread reads the next chunk, predicts it,
// and writes the result after those of all earlier chunks.
class FilePrediction {
 public:
  FilePrediction(const Options& options, std::shared_ptr<const ModelVersion> model,
                 PredictInput input, bool adds_columns, OutputFile* output)
      : options_(options),
        input_(std::move(input)),
        adds_columns_(adds_columns),
        model_(std::move(model)),
        tasks_(model_->format().labels.size()),
        metrics_(model_->config().model.tasks, GroupFeature(model_->config()),
                 InputsOf(model_->config()).has_sample_weights),
        output_(output) {}

  // Opens the input.
  Status Open() {
    MutexLock lock(read_mutex_);
    const ReadOptions reading{.ignore_labels = !options_.evaluates, .allow_pipes = true};
    if (IsArrow(input_.data)) return OpenReader(reading);
    SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(input_.data, input_.files, reading));
    const bool is_csv = input_.data.format == DataConfig::Format::kCsv;
    if (adds_columns_ && is_csv && !lines.has_names()) {
      return Annotate(CheckColumns(options_, model_->config().data), "--columns");
    }
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
  // Returns the problem of the first bad row; empty if the reader has logged it.
  const std::string& first_problem() const { return first_problem_; }
  // Returns the numbers of ids, indexed by feature.
  const std::vector<Predictor::IdCount>& id_counts() const { return id_counts_; }
  double seconds() const { return seconds_; }

  void ReportFarNumbers() {
    MutexLock lock(turn_mutex_);
    far_numbers_.Report(model_->config().data);
  }
  StatusOr<EvaluationResult> Evaluate() {
    MutexLock lock(turn_mutex_);
    return metrics_.Compute(*NewLocalCollective());
  }

 private:
  // Opens an input without lines, whose rows are parsed as they are read.
  Status OpenReader(ReadOptions reading) ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_) {
    DataConfig data = input_.data;
    data.on_bad_row = DataConfig::OnBadRow::kSkip;  // The reader logs bad rows.
    data.max_bad_share = 1;
    reading.copies_skipped = true;
    reading.threads = ReadingThreads(data);
    // Called by Next(), with the mutex held.
    reading.on_row = [this](std::string_view line, bool in_batch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      Chunk& chunk = *observed_;
      if (!options_.columns.empty()) chunk.text.append(line);
      chunk.ends.push_back(chunk.text.size());
      chunk.lines.push_back(++rows_read_);
      chunk.is_good.push_back(in_batch);
    };
    SIMURGH_ASSIGN_OR_RETURN(reader_, OpenBatchReader(data, model_->config().features, input_.files,
                                                      Chunk::kRows, reading));
    return absl::OkStatus();
  }

  void Work() {
    const Status status = Predict();
    MutexLock lock(turn_mutex_);
    if (result_.ok()) result_ = status;
    if (!status.ok()) failed_ = true;
    turn_.NotifyAll();
  }

  Status Predict() {
    SIMURGH_ASSIGN_OR_RETURN(Predictor predictor,
                             Predictor::Create(*model_, {.ignore_labels = !options_.evaluates,
                                                         .data = &input_.data,
                                                         .counts_ids = true}));
    std::optional<RowText> text;
    std::shared_ptr<const FileColumns> columns;  // Columns of `text`.
    for (Chunk chunk; !failed_;) {
      SIMURGH_RETURN_IF_ERROR(Read(chunk));
      if (chunk.ends.empty()) break;
      if (!options_.columns.empty() && (!text || columns != chunk.columns)) {
        columns = chunk.columns;
        SIMURGH_RETURN_IF_ERROR(CheckHasColumns(chunk));
        SIMURGH_ASSIGN_OR_RETURN(
            RowText chosen, RowText::Create(LinesOf(input_.data), options_.columns, columns.get()));
        text.emplace(std::move(chosen));
      }
      SIMURGH_RETURN_IF_ERROR(PredictChunk(predictor, text, chunk));
      SIMURGH_RETURN_IF_ERROR(Write(chunk));
    }
    MutexLock lock(turn_mutex_);
    id_counts_.resize(predictor.id_counts().size());
    for (size_t f = 0; f < id_counts_.size(); ++f) {
      const Predictor::IdCount& one = predictor.id_counts()[f];
      id_counts_[f].occurrences += one.occurrences;
      id_counts_[f].unseen += one.unseen;
      id_counts_[f].rows += one.rows;
      id_counts_[f].empty_rows += one.empty_rows;
    }
    return absl::OkStatus();
  }

  // Errors: INVALID_ARGUMENT for a column to copy that a header lacks. Labels may be missing.
  Status CheckHasColumns(const Chunk& chunk) const {
    const std::vector<ColumnConfig> all = ColumnsOf(input_.data);
    for (size_t c = 0; chunk.columns != nullptr && c < all.size(); ++c) {
      if (IsTarget(all[c].kind) || chunk.columns->cells[c] != FileColumns::kAbsent) continue;
      if (std::ranges::find(options_.columns, all[c].name) == options_.columns.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat("--columns: the header of ", chunk.file,
                                                     " has no column '", all[c].name,
                                                     "'; add it, or leave it out of --columns"));
    }
    return absl::OkStatus();
  }

  // Reads the next rows; no rows at the end.
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
      if (!next_line_) {
        SIMURGH_ASSIGN_OR_RETURN(next_line_, lines_->Next());
      }
      if (!next_line_) break;
      if (lines_->files_opened() != file_) {
        if (!chunk.ends.empty()) break;  // A chunk has rows of one file.
        file_ = lines_->files_opened();
        const FileColumns* const columns = lines_->columns();
        columns_ = columns == nullptr ? nullptr : std::make_shared<FileColumns>(*columns);
      }
      const std::optional<Line> line = std::exchange(next_line_, std::nullopt);
      chunk.lines.push_back(lines_->line_number());
      chunk.text.append(line->text);
      chunk.ends.push_back(chunk.text.size());
      chunk.is_whole.push_back(line->whole);
    }
    if (!chunk.ends.empty()) chunk.file = lines_->file();
    chunk.columns = columns_;
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
                                ? predictor.rows().AddLine(chunk.row(row), chunk.columns.get())
                                : LongLineError();
      chunk.is_good.push_back(parsed.ok());
      if (parsed.ok()) continue;
      if (!absl::IsInvalidArgument(parsed)) return parsed;
      if (++chunk.bad_rows > kLoggedRows) continue;
      chunk.problems.push_back(
          absl::StrCat(chunk.file, ":", chunk.lines[row], ": ", std::string(parsed.message())));
    }
    if (!is_parsed || chunk.batch.sparse == nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(chunk.batch, predictor.rows().Build());
    }
    SIMURGH_RETURN_IF_ERROR(predictor.Predict(*model_, chunk.batch, chunk.probabilities));
    if (!AllFinite(chunk.probabilities)) {
      return absl::FailedPreconditionError(
          absl::StrCat(chunk.file.empty() ? input_.files.front() : chunk.file, ":", chunk.lines[0],
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
      if (problems_ == 0) first_problem_ = problem;
      if (++problems_ > kLoggedRows) break;
      spdlog::warn("row skipped: {}", problem);
      if (problems_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
    }
    rows_ += chunk.ends.size();
    bad_rows_ += chunk.bad_rows;
    if (options_.evaluates) metrics_.Add(chunk.batch, chunk.probabilities);
    far_numbers_.Count(chunk.batch.dense);
    line_.Show("predicting", rows_, "");
    ++written_;
    turn_.NotifyAll();
    if (output_ == nullptr) return absl::OkStatus();
    const Status written = output_->Append(chunk.output);
    // A thread that reads stdin might not end for long, so the process does not wait for it.
    if (absl::IsCancelled(written)) std::_Exit(static_cast<int>(ExitCode::kRuntimeFailure));
    return written;
  }

  static constexpr uint64_t kLoggedRows = 10;

  const Options& options_;
  const PredictInput input_;
  const bool adds_columns_;  // Whether columns are copied that the training did not have.
  const std::shared_ptr<const ModelVersion> model_;
  const size_t tasks_;
  PredictionMetrics metrics_ ABSL_GUARDED_BY(turn_mutex_);
  Mutex read_mutex_;
  std::optional<Line> next_line_ ABSL_GUARDED_BY(read_mutex_);  // First line of the next chunk.
  size_t file_ ABSL_GUARDED_BY(read_mutex_) = 0;  // Number of the last line's file, from 1.
  std::shared_ptr<const FileColumns> columns_ ABSL_GUARDED_BY(read_mutex_);  // Columns of `file_`.
  std::optional<RowLines> lines_ ABSL_GUARDED_BY(read_mutex_);        // Either this or reader_.
  std::unique_ptr<BatchReader> reader_ ABSL_GUARDED_BY(read_mutex_);  // Reads rows without lines.
  Chunk* observed_ ABSL_GUARDED_BY(read_mutex_) = nullptr;            // Receives reader_'s rows.
  uint64_t rows_read_ ABSL_GUARDED_BY(read_mutex_) = 0;
  uint64_t next_chunk_ ABSL_GUARDED_BY(read_mutex_) = 0;
  Mutex turn_mutex_;
  CondVar turn_;
  OutputFile* const output_;
  ProgressLine line_;
  double seconds_ = 0;
  uint64_t written_ ABSL_GUARDED_BY(turn_mutex_) = 0;  // Number of chunks written.
  uint64_t rows_ = 0;
  uint64_t bad_rows_ = 0;
  uint64_t problems_ = 0;
  std::string first_problem_;
  FarNumbers far_numbers_ ABSL_GUARDED_BY(turn_mutex_);
  std::vector<Predictor::IdCount> id_counts_;
  Status result_ ABSL_GUARDED_BY(turn_mutex_);
  std::atomic<bool> failed_ = false;
};

// Errors: INVALID_ARGUMENT if the predictions would replace the rows.
Status CheckPaths(const std::vector<std::string>& files, const std::string& output) {
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(file, output, ignored)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--output ", output, ": is the input, which it would replace; name another file"));
  }
  return absl::OkStatus();
}

StatusOr<ExitCode> Predict(Options options) {
  SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
  std::signal(SIGPIPE, SIG_IGN);  // A write to a closed pipe returns the error.
  SIMURGH_ASSIGN_OR_RETURN(const uint32_t threads, ThreadsOf(options));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  ProgressLine loading;
  SIMURGH_ASSIGN_OR_RETURN(
      const std::shared_ptr<const ModelVersion> model,
      ModelVersion::Load(checkpoint,
                         {.overrides = options.overrides, .allow_plugins = options.allow_plugins},
                         [&](uint64_t rows, uint64_t all) {
                           loading.Show("loading", rows, absl::StrCat(" of=", all));
                           return absl::OkStatus();
                         }));
  loading.End();
  PrintOverrides(checkpoint, options.overrides, model->config());
  const std::vector<std::string>& labels = model->format().labels;
  SIMURGH_ASSIGN_OR_RETURN(PredictInput input, InputOf(model->config().data, options.input));
  SIMURGH_RETURN_IF_ERROR(CheckPaths(input.files, options.output));
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
  FilePrediction prediction(options, model, std::move(input), adds_columns, output.get());
  SIMURGH_RETURN_IF_ERROR(prediction.Open());
  SIMURGH_RETURN_IF_ERROR(prediction.Run(threads));
  const double seconds = prediction.seconds();
  prediction.ReportFarNumbers();
  const double unseen = ReportUnseenIds(model->config().features, prediction.id_counts(), is_csv);
  std::fprintf(stderr,
               "simurgh: predicted: rows=%llu bad_rows=%llu unseen_ids=%.1f%% seconds=%.2f "
               "rows_per_s=%.0f\n",
               static_cast<unsigned long long>(prediction.rows()),
               static_cast<unsigned long long>(prediction.bad_rows()), 100 * unseen, seconds,
               static_cast<double>(prediction.rows()) / seconds);
  if (prediction.rows() > 0 && prediction.bad_rows() == prediction.rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.input, ": ",
        prediction.rows() == 1 ? "the only row is bad"
                               : absl::StrCat("all ", prediction.rows(), " rows are bad"),
        prediction.first_problem().empty() ? "" : ": ", prediction.first_problem()));
  }
  if (output != nullptr) SIMURGH_RETURN_IF_ERROR(output->Finish());
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
                        "read rows from FILE, a folder or a pattern; -: stdin")(
      "output", po::value(&own.output)->value_name("FILE"),
      "write predictions to FILE, which appears when it is complete; -: stdout")(
      "columns", po::value(&columns)->value_name("NAME,..."),
      "copy these columns of the input to the output, also others than the training's")(
      "evaluate", po::bool_switch(&own.evaluates),
      "compare with the labels: print loss and metrics")(
      "threads", po::value(&own.threads)->value_name("N"),
      "use N threads; 0, the default: one per processor")(
      "set", po::value(&own.overrides)->value_name("KEY=VALUE"),
      "change a configuration key, such as the path of a vocabulary; may repeat")(
      "allow-plugins", po::bool_switch(&own.allow_plugins), kAllowPlugins);
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
