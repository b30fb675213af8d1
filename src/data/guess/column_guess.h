#pragma once

#include <string>
#include <vector>

#include "data/guess/csv_sample.h"
#include "simurgh/base/status.h"
#include "simurgh/data/csv_guess.h"

namespace simurgh {

// The column of the label, by `name` or, if that is empty, by its names and values.
// Errors: INVALID_ARGUMENT with the columns that could be the label.
StatusOr<size_t> FindLabel(const CsvSample& sample, const std::string& name);

// Requires a column that FindLabel returned. The column of the guess lacks its name.
ColumnGuess GuessLabel(const ColumnProfile& profile);

// name: in the header. The column of the guess lacks its name.
ColumnGuess GuessColumn(const std::string& name, const ColumnProfile& profile, bool is_whole);

}  // namespace simurgh
