#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retrieval/tower_data.h"

#include "base/status.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "simurgh/arrow_c_data.h"

namespace simurgh {

// The metrics of predictions for rows with labels.
struct TableEvaluation {
  std::string text;  // See TestResult().
  uint64_t rows = 0;
  uint64_t bad_rows = 0;
};

// Compares predictions of a table's rows with their labels. outputs: (rows, labels) of a program's
// network; none: the model's network predicts. Takes over the table.
// Errors: INVALID_ARGUMENT for a missing column, another number of outputs, an output that is not
// finite, or without a row that can be compared; those of Predictor.
StatusOr<TableEvaluation> EvaluateTable(const ModelVersion& version, Predictor& predictor,
                                        ArrowArrayStream* table,
                                        std::optional<std::span<const float>> outputs);

// The vectors of a table's rows.
struct TableVectors {
  size_t width = 0;
  std::vector<float> vectors;  // (good rows, width)
  std::vector<bool> is_good;   // One for each row of the table.
};

// Computes vectors of users or items. Takes over the table, which may lack the columns that only
// the other tower reads. Errors: INVALID_ARGUMENT for a missing column or another model than one of
// two towers; those of Predictor.
StatusOr<TableVectors> VectorsOfTable(const ModelVersion& version, Predictor& predictor,
                                      ArrowArrayStream* table, TowerSide side);

}  // namespace simurgh
