#include "services/simurgh/row_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "data/reading/batch_reader.h"
#include "services/nn_worker/model_update.h"

namespace simurgh {
namespace {

constexpr size_t kRows = 4'096;

// Returns a number that no column has, which replaces missing ones.
double MarkOf(const ColumnConfig& column) {
  const bool is_log = column.transform == ColumnConfig::Transform::kLog1p;
  return is_log ? 987'654.3125 : column.mean + 777.4375 * column.stddev;
}

// Returns whether the value of a column is its mark.
bool IsMark(const ColumnConfig& column, float value) {
  constexpr double kTolerance = 1e-5;
  const bool is_log = column.transform == ColumnConfig::Transform::kLog1p;
  const double number = is_log ? std::log1p(MarkOf(column)) : MarkOf(column);
  const double mark = (number - column.mean) / column.stddev;
  return std::abs(value - mark) <= kTolerance * std::abs(mark);
}

// Returns settings that read the same rows with marks for missing numbers.
DataConfig WithMarks(DataConfig data) {
  for (ColumnConfig& column : data.columns) {
    if (column.kind == ColumnConfig::Kind::kDense) column.missing = MarkOf(column);
  }
  return data;
}

// Finds the columns that have a value in a row.
class Values {
 public:
  explicit Values(const ClusterConfig& config) : config_(config) {}

  void Add(const Batch& batch) {
    rows_ += batch.size();
    size_t place = 0;
    for (const ColumnConfig& column : config_.data.columns) {
      if (column.kind != ColumnConfig::Kind::kDense) continue;
      for (size_t row = 0; row < batch.dense.batch_size; ++row) {
        const float* const begin = &batch.dense.values[row * batch.dense.width + place];
        if (std::any_of(begin, begin + column.width, [&](float x) { return !IsMark(column, x); })) {
          found_.insert(column.name);
          break;
        }
      }
      place += column.width;
    }
    for (size_t f = 0; f < config_.features.size(); ++f) {
      const std::vector<std::string> columns = config_.features[f].sources();
      // An empty cell has an id, too, unless the feature skips missing values.
      const bool has_id =
          config_.features[f].processing.missing != ProcessingConfig::Missing::kSkip;
      if (has_id || !batch.sparse->list(batch.sparse->list_of(f)).empty()) {
        found_.insert(columns.begin(), columns.end());
      }
    }
  }

  std::vector<std::string> Warnings() const {
    // In fewer rows, a column that is nearly always empty may have no value.
    constexpr size_t kFewRows = 1'000;
    std::vector<std::string> warnings;
    for (const ColumnConfig& column : config_.data.columns) {
      const bool is_read = column.kind == ColumnConfig::Kind::kDense ||
                           std::ranges::any_of(config_.features, [&](const FeatureConfig& feature) {
                             const std::vector<std::string> columns = feature.sources();
                             return std::ranges::find(columns, column.name) != columns.end();
                           });
      if (rows_ < kFewRows || !is_read || found_.contains(column.name)) continue;
      warnings.push_back(absl::StrCat("column '", HeaderName(column),
                                      "' has no value in the first ", rows_,
                                      " of the new rows; check the column"));
    }
    return warnings;
  }

 private:
  const ClusterConfig& config_;
  size_t rows_ = 0;
  std::set<std::string> found_;
};

}  // namespace

StatusOr<std::vector<std::string>> CheckRows(const ClusterConfig& config,
                                             const std::vector<DayFile>& files) {
  const DataConfig data = WithMarks(config.data);
  Values values(config);
  uint64_t bad_rows = 0;
  bool has_rows = false;
  for (const DayFile& file : files) {
    SIMURGH_ASSIGN_OR_RETURN(const auto reader,
                             OpenBatchReader(data, config.features, {file.path}, kRows));
    const StatusOr<std::optional<Batch>> next = reader->Next();
    SIMURGH_RETURN_IF_ERROR(WithRemedy(data, next.status()));
    const std::optional<Batch>& batch = *next;
    if (batch) values.Add(*batch);
    has_rows = has_rows || batch;
    bad_rows += reader->skipped_rows();
  }
  if (has_rows) return values.Warnings();
  const std::string what =
      bad_rows > 0 ? absl::StrCat("all ", bad_rows, " rows are bad; correct them") : "no rows";
  return absl::InvalidArgumentError(absl::StrCat("--data: ", files.front().path,
                                                 files.size() > 1 ? " and others" : "", ": ", what,
                                                 bad_rows > 0 ? "" : "; name files with rows"));
}

}  // namespace simurgh
