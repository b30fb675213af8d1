#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retrieval/ranking_metrics.h"

#include "base/mutex.h"
#include "base/status.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/progress.h"
#include "train/evaluator.h"

namespace simurgh {

// Some rows of one file, in order, with their predictions.
struct PredictedRows {
  uint64_t number = 0;                         // Counted from 0.
  std::string file;                            // File of all rows; empty for Arrow data.
  std::shared_ptr<const FileColumns> columns;  // See RowLines::columns().
  std::string text;                   // Lines of all rows, see FilePredictionOptions::keeps_lines.
  std::vector<size_t> ends;           // End of each row's line in `text`.
  std::vector<bool> is_whole;         // Whether each row is whole, see Line.
  std::vector<size_t> lines;          // Number of each row's line.
  std::vector<bool> is_good;          // Whether each row could be parsed.
  Batch batch;                        // The good rows.
  std::vector<float> predictions;     // (batch.size(), labels), row by row.
  std::vector<std::string> problems;  // Problems of the first bad rows.
  uint64_t bad_rows = 0;
  // For the functions of FilePredictionOptions.
  std::string output;
  std::vector<std::string> cells;

  size_t size() const { return ends.size(); }  // Number of rows, also bad ones.
  std::string_view row(size_t index) const {
    const size_t first = index == 0 ? 0 : ends[index - 1];
    return std::string_view(text).substr(first, ends[index] - first);
  }
};

struct FilePredictionOptions {
  bool reads_labels = false;         // False: see ReadOptions::ignore_labels.
  std::vector<std::string> columns;  // Columns whose cells `prepare` reads.
  const char* option = "--columns";  // Names the columns in errors.
  bool adds_columns = false;         // Some of them are not columns of the training.
  // Rows of Arrow data have lines, too: those of LinesOf(). Implied by `columns`.
  bool keeps_lines = false;
  // Called with predicted rows, on several threads at once. text: gives cells of `columns` of lines
  // of these rows; null without `columns`. May be empty.
  std::function<Status(PredictedRows& rows, RowText* text)> prepare;
  // Called with all rows in order, after `prepare`, one piece at a time. An error ends the
  // prediction.
  std::function<Status(PredictedRows& rows)> sink;
};

// Predicts the rows of an input with several threads. Each thread reads the next rows, predicts
// them, and hands them to the sink after all earlier rows.
//
// Logs the first bad rows, and shows the progress on stderr.
// Threads: one owner.
class FilePrediction {
 public:
  FilePrediction(std::shared_ptr<const ModelVersion> model, PredictInput input,
                 FilePredictionOptions options);

  // Opens the input. Errors: those of RowLines::Open() and OpenBatchReader().
  Status Open();
  // Predicts all rows. Errors: of reading, of Predictor and of the functions of the options;
  // FAILED_PRECONDITION for predictions that are not finite.
  Status Run(uint32_t threads);

  // These require that Run() has returned.
  uint64_t rows() const { return rows_; }
  uint64_t bad_rows() const { return bad_rows_; }
  // Returns INVALID_ARGUMENT if there are rows and all are bad. input: names it.
  Status CheckRows(const std::string& input) const;
  // Returns the numbers of ids, indexed by feature.
  const std::vector<Predictor::IdCount>& id_counts() const { return id_counts_; }
  double seconds() const { return seconds_; }

 private:
  bool keeps_lines() const { return options_.keeps_lines || !options_.columns.empty(); }
  // Opens an input without lines, whose rows are parsed as they are read.
  Status OpenReader(ReadOptions reading) ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  void Work();
  Status Predict();
  // Errors: INVALID_ARGUMENT for a column to copy that a header lacks. Labels may be missing.
  Status CheckHasColumns(const PredictedRows& rows) const;
  // Reads the next rows; no rows at the end.
  Status Read(PredictedRows& rows);
  Status PredictRows(Predictor& predictor, PredictedRows& rows);
  Status HandOn(PredictedRows& rows);

  const FilePredictionOptions options_;
  const PredictInput input_;
  const std::shared_ptr<const ModelVersion> model_;
  Mutex read_mutex_;
  std::optional<Line> next_line_ ABSL_GUARDED_BY(read_mutex_);  // First line of the next rows.
  size_t file_ ABSL_GUARDED_BY(read_mutex_) = 0;  // Number of the last line's file, from 1.
  std::shared_ptr<const FileColumns> columns_ ABSL_GUARDED_BY(read_mutex_);  // Columns of `file_`.
  std::optional<RowLines> lines_ ABSL_GUARDED_BY(read_mutex_);        // Either this or reader_.
  std::unique_ptr<BatchReader> reader_ ABSL_GUARDED_BY(read_mutex_);  // Reads rows without lines.
  PredictedRows* observed_ ABSL_GUARDED_BY(read_mutex_) = nullptr;    // Receives reader_'s rows.
  uint64_t rows_read_ ABSL_GUARDED_BY(read_mutex_) = 0;
  uint64_t next_number_ ABSL_GUARDED_BY(read_mutex_) = 0;
  Mutex turn_mutex_;
  CondVar turn_;
  ProgressLine line_;
  double seconds_ = 0;
  uint64_t handed_on_ ABSL_GUARDED_BY(turn_mutex_) = 0;  // Number of pieces that the sink has got.
  uint64_t rows_ = 0;
  uint64_t bad_rows_ = 0;
  uint64_t problems_ = 0;
  std::string first_problem_;  // Problem of the first bad row; empty if the reader has logged it.
  std::vector<Predictor::IdCount> id_counts_;
  Status result_ ABSL_GUARDED_BY(turn_mutex_);
  std::atomic<bool> failed_ = false;
};

// Loads a model, with the progress on stderr. Errors: those of ModelVersion::Load().
StatusOr<std::shared_ptr<const ModelVersion>> LoadVersion(const Checkpoint& checkpoint,
                                                          const std::vector<std::string>& overrides,
                                                          bool allow_plugins);

// Returns the number of threads that predict. threads: 0: one per processor, at most
// kMaxPredictThreads. Errors: those of the system.
inline constexpr uint32_t kMaxPredictThreads = 256;
StatusOr<uint32_t> PredictThreads(int64_t threads);

// A ranking of all items for the users of rows.
struct RankedRows {
  RankingResult result;
  uint64_t rows = 0;
  uint64_t bad_rows = 0;
};

// Ranks with a model of two towers. on_user: may be empty. Errors: those of RankVersion().
StatusOr<RankedRows> RankRows(const ModelVersion& model, PredictInput input,
                              const OnRankedUser& on_user = nullptr);

}  // namespace simurgh
