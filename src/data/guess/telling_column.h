#pragma once

#include <optional>
#include <string>

#include "config/data_config.h"

namespace simurgh {

// A column of the training data that predicts a label on its own.
struct TellingColumn {
  std::string name;     // Name in the file's header.
  double loss = 0;      // Loss on rows that were not in the fit.
  double constant = 0;  // Loss of predicting the share of positives for every row.
};

// Looks at a sample of the first training file. Returns the column that predicts the label best, if
// its loss is clearly below that of a constant. Nothing: there is no such column, or the file
// cannot be read without its configuration, such as a CSV file without a header.
// label: name of a column of `data` with kind label.
std::optional<TellingColumn> FindTellingColumn(const DataConfig& data, const std::string& label);

}  // namespace simurgh
