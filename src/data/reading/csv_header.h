#pragma once

#include <string_view>

#include "config/data_config.h"

namespace simurgh {

// Role of the first line of a CSV file, judged by its cells: names of columns, in any order and
// case, and numbers where a column needs one.
enum class FirstLine {
  kHeader,
  kRow,
  kUnclear,  // It would be a silent error to take it for either.
};

// Returns the role of the first line. needs_labels: see FindColumns(). With config.csv.header the
// line is a row only if it cannot have names.
FirstLine FirstLineOf(const DataConfig& config, std::string_view line, bool needs_labels);

// Returns whether the header has the name of a column, in any case.
bool HasName(const DataConfig& config, std::string_view header);

}  // namespace simurgh
