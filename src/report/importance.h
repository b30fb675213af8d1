#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "predict/model_version.h"
#include "report/bootstrap.h"
#include "report/labelled_rows.h"
#include "report/permutation.h"

namespace simurgh {

// Columns of the data that are permuted together.
using ColumnGroup = std::vector<std::string>;

// Returns the groups to measure: the given ones, then each other column that the model reads,
// alone. Errors: INVALID_ARGUMENT for a column that the model does not read, or that is named
// twice.
StatusOr<std::vector<ColumnGroup>> ColumnGroupsOf(const ModelVersion& model,
                                                  const std::vector<ColumnGroup>& given);

// Most permutations of a column.
inline constexpr uint32_t kMaxRepeats = 1'000;

// Returns the number of rows that are measured by default: such that the predictions take about 20
// s on two processors with a network of usual size.
size_t DefaultImportanceRows(size_t groups, uint32_t repeats);

// Returns the most rows that can be measured.
size_t MostImportanceRows(size_t groups, uint32_t repeats, size_t labels);

// Rows of a sample: their texts, and what is known of them.
struct ImportanceRows {
  // One line per row, with all configured columns in order, in the format of LinesOf().
  std::vector<std::string> lines;
  PredictedSample sample;
};

struct ImportanceOptions {
  std::vector<ColumnGroup> groups;
  uint32_t repeats = 5;
  uint32_t threads = 1;
  // Called on any thread with the numbers of rows measured so far, one call at a time.
  std::function<void(size_t rows)> progress;
};

struct ColumnImportance {
  ColumnGroup columns;
  std::vector<PermutationEffects> effects;  // One per label.
};

struct Importance {
  size_t rows = 0;
  uint32_t repeats = 0;
  std::vector<Metrics> metrics;  // Metrics of the rows without a permutation, one per label.
  // The highest increase of the first label's loss first. Columns without a known one are last.
  std::vector<ColumnImportance> columns;
};

// Measures how much worse a model predicts when the cells of columns are permuted among the rows.
// Cells are permuted before feature processing, so that all features, crosses and ranges of a
// column move together. Results depend on the rows and the options only.
//
// data: the input's, see PredictInput. Requires rows, at most MostImportanceRows().
// Errors: those of LineCells, Predictor and RowBatcher.
// Memory: 4 bytes for each row, group, repeat and label, and as much for the permutations.
// Cost: a prediction for each row, group and repeat, but where the cell stays equal.
StatusOr<Importance> MeasureImportance(const ModelVersion& model, const DataConfig& data,
                                       const ImportanceRows& rows,
                                       const ImportanceOptions& options);

}  // namespace simurgh
