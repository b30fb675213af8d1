#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

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

}  // namespace simurgh
