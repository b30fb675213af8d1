#include "services/simurgh/file_prediction.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

#include <sched.h>

#include "absl/strings/str_cat.h"
#include "retrieval/version_ranking.h"

#include "base/log.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

// Limits of the rows that are predicted together.
constexpr size_t kRows = 1'024;
constexpr size_t kBytes = size_t{4} << 20;

constexpr uint64_t kLoggedRows = 10;

}  // namespace

StatusOr<std::shared_ptr<const ModelVersion>> LoadVersion(const Checkpoint& checkpoint,
                                                          const std::vector<std::string>& overrides,
                                                          bool allow_plugins) {
  ProgressLine line;
  auto version =
      ModelVersion::Load(checkpoint, {.overrides = overrides, .allow_plugins = allow_plugins},
                         [&](uint64_t rows, uint64_t all) {
                           line.Show("loading", rows, absl::StrCat(" of=", all));
                           return absl::OkStatus();
                         });
  line.End();
  return version;
}

StatusOr<uint32_t> PredictThreads(int64_t threads) {
  if (threads > 0) return static_cast<uint32_t>(threads);
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof(own), &own) != 0) {
    return ErrnoStatus(errno, "cannot read the processors of the process");
  }
  return std::min(static_cast<uint32_t>(CPU_COUNT(&own)), kMaxPredictThreads);
}

FilePrediction::FilePrediction(std::shared_ptr<const ModelVersion> model, PredictInput input,
                               FilePredictionOptions options)
    : options_(std::move(options)), input_(std::move(input)), model_(std::move(model)) {}

Status FilePrediction::Open() {
  MutexLock lock(read_mutex_);
  const ReadOptions reading{.ignore_labels = !options_.reads_labels, .allow_pipes = true};
  if (IsArrow(input_.data)) return OpenReader(reading);
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(input_.data, input_.files, reading));
  const bool is_csv = input_.data.format == DataConfig::Format::kCsv;
  if (options_.adds_columns && is_csv && !lines.has_names()) {
    return Annotate(RowText::Create(model_->config().data, options_.columns).status(),
                    options_.option);
  }
  lines_.emplace(std::move(lines));
  return absl::OkStatus();
}

Status FilePrediction::OpenReader(ReadOptions reading) {
  DataConfig data = input_.data;
  data.on_bad_row = DataConfig::OnBadRow::kSkip;  // The reader logs bad rows.
  data.max_bad_share = 1;
  reading.copies_skipped = true;
  reading.threads = ReadingThreads(data);
  // Called by Next(), with the mutex held.
  reading.on_row = [this](std::string_view line, bool in_batch) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    PredictedRows& rows = *observed_;
    if (keeps_lines()) rows.text.append(line);
    rows.ends.push_back(rows.text.size());
    rows.lines.push_back(++rows_read_);
    rows.is_good.push_back(in_batch);
  };
  SIMURGH_ASSIGN_OR_RETURN(
      reader_, OpenBatchReader(data, model_->config().features, input_.files, kRows, reading));
  return absl::OkStatus();
}

Status FilePrediction::Run(uint32_t threads) {
  std::vector<std::jthread> others;
  for (uint32_t i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
  Work();
  others.clear();
  seconds_ = line_.seconds();
  line_.End();
  MutexLock lock(turn_mutex_);
  return result_;
}

Status FilePrediction::CheckRows(const std::string& input) const {
  if (rows_ == 0 || bad_rows_ < rows_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      input, ": ",
      rows_ == 1 ? "the only row is bad" : absl::StrCat("all ", rows_, " rows are bad"),
      first_problem_.empty() ? "" : ": ", first_problem_));
}

void FilePrediction::Work() {
  const Status status = Predict();
  MutexLock lock(turn_mutex_);
  if (result_.ok()) result_ = status;
  if (!status.ok()) failed_ = true;
  turn_.NotifyAll();
}

Status FilePrediction::Predict() {
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor,
                           Predictor::Create(*model_, {.ignore_labels = !options_.reads_labels,
                                                       .data = &input_.data,
                                                       .counts_ids = true}));
  std::optional<RowText> text;
  std::shared_ptr<const FileColumns> columns;  // Columns of `text`.
  for (PredictedRows rows; !failed_;) {
    SIMURGH_RETURN_IF_ERROR(Read(rows));
    if (rows.ends.empty()) break;
    if (!options_.columns.empty() && (!text || columns != rows.columns)) {
      columns = rows.columns;
      SIMURGH_RETURN_IF_ERROR(CheckHasColumns(rows));
      SIMURGH_ASSIGN_OR_RETURN(
          RowText chosen, RowText::Create(LinesOf(input_.data), options_.columns, columns.get()));
      text.emplace(std::move(chosen));
    }
    SIMURGH_RETURN_IF_ERROR(PredictRows(predictor, rows));
    if (options_.prepare) {
      SIMURGH_RETURN_IF_ERROR(options_.prepare(rows, text ? &*text : nullptr));
    }
    SIMURGH_RETURN_IF_ERROR(HandOn(rows));
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

Status FilePrediction::CheckHasColumns(const PredictedRows& rows) const {
  const std::vector<ColumnConfig> all = ColumnsOf(input_.data);
  for (size_t c = 0; rows.columns != nullptr && c < all.size(); ++c) {
    if (IsTarget(all[c].kind) || rows.columns->cells[c] != FileColumns::kAbsent) continue;
    if (std::ranges::find(options_.columns, all[c].name) == options_.columns.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(options_.option, ": the header of ", rows.file, " has no column '",
                     all[c].name, "'; add it, or leave it out of ", options_.option));
  }
  return absl::OkStatus();
}

Status FilePrediction::Read(PredictedRows& rows) {
  rows.text.clear();
  rows.ends.clear();
  rows.is_whole.clear();
  rows.lines.clear();
  rows.is_good.clear();
  MutexLock lock(read_mutex_);
  if (reader_ != nullptr) {
    observed_ = &rows;
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader_->Next());
    rows.batch = batch ? *std::move(batch) : Batch();
    rows.number = next_number_++;
    return absl::OkStatus();
  }
  while (rows.ends.size() < kRows && rows.text.size() < kBytes) {
    if (!next_line_) {
      SIMURGH_ASSIGN_OR_RETURN(next_line_, lines_->Next());
    }
    if (!next_line_) break;
    if (lines_->files_opened() != file_) {
      if (!rows.ends.empty()) break;  // The rows are of one file.
      file_ = lines_->files_opened();
      const FileColumns* const columns = lines_->columns();
      columns_ = columns == nullptr ? nullptr : std::make_shared<FileColumns>(*columns);
    }
    const std::optional<Line> line = std::exchange(next_line_, std::nullopt);
    rows.lines.push_back(lines_->line_number());
    rows.text.append(line->text);
    rows.ends.push_back(rows.text.size());
    rows.is_whole.push_back(line->whole);
  }
  if (!rows.ends.empty()) rows.file = lines_->file();
  rows.columns = columns_;
  rows.number = next_number_++;
  return absl::OkStatus();
}

Status FilePrediction::PredictRows(Predictor& predictor, PredictedRows& rows) {
  rows.bad_rows = 0;
  rows.problems.clear();
  rows.output.clear();
  const bool is_parsed = !rows.is_good.empty();
  if (is_parsed) rows.bad_rows = std::ranges::count(rows.is_good, false);
  for (size_t row = 0; !is_parsed && row < rows.size(); ++row) {
    const Status parsed = rows.is_whole[row]
                              ? predictor.rows().AddLine(rows.row(row), rows.columns.get())
                              : LongLineError();
    rows.is_good.push_back(parsed.ok());
    if (parsed.ok()) continue;
    if (!absl::IsInvalidArgument(parsed)) return parsed;
    if (++rows.bad_rows > kLoggedRows) continue;
    rows.problems.push_back(
        absl::StrCat(rows.file, ":", rows.lines[row], ": ", std::string(parsed.message())));
  }
  if (!is_parsed || rows.batch.sparse == nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(rows.batch, predictor.rows().Build());
  }
  SIMURGH_RETURN_IF_ERROR(predictor.Predict(*model_, rows.batch, rows.predictions));
  if (AllFinite(rows.predictions)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(rows.file.empty() ? input_.files.front() : rows.file, ":", rows.lines[0],
                   " and the rows behind: a prediction is "
                   "not finite; the weights or the dense values are too large"));
}

Status FilePrediction::HandOn(PredictedRows& rows) {
  MutexLock lock(turn_mutex_);
  while (handed_on_ != rows.number && !failed_) turn_.Wait(turn_mutex_);
  if (failed_) return absl::OkStatus();
  for (const std::string& problem : rows.problems) {
    if (problems_ == 0) first_problem_ = problem;
    if (++problems_ > kLoggedRows) break;
    spdlog::warn("row skipped: {}", problem);
    if (problems_ == kLoggedRows) spdlog::warn("further bad rows are counted, not logged");
  }
  rows_ += rows.size();
  bad_rows_ += rows.bad_rows;
  line_.Show("predicting", rows_, "");
  ++handed_on_;
  turn_.NotifyAll();
  return options_.sink(rows);
}

StatusOr<RankedRows> RankRows(const ModelVersion& model, PredictInput input,
                              const OnRankedUser& on_user) {
  const ClusterConfig& config = model.config();
  input.data.on_bad_row = DataConfig::OnBadRow::kSkip;
  input.data.max_bad_share = 1;
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(model, {.data = &input.data}));
  RankedRows ranked;
  const auto open = [&](const DataConfig& data, const RowObserver& on_row) {
    const RowObserver counting = [&ranked, on_row](std::string_view line, bool in_batch) {
      ++ranked.rows;
      if (!in_batch) ++ranked.bad_rows;
      on_row(line, in_batch);
    };
    return OpenBatchReader(data, config.features, input.files, config.training.batch_size,
                           {.on_row = counting, .copies_skipped = true, .allow_pipes = true});
  };
  SIMURGH_ASSIGN_OR_RETURN(ranked.result, RankVersion(model, predictor, input.data, open, on_user));
  return ranked;
}

}  // namespace simurgh
