#pragma once

#include <string_view>

#include "config/data_config.h"

namespace simurgh {

// What the first line of a CSV file is, judged by its cells: names of columns, whatever their order
// and case, and numbers where a column needs one.
enum class FirstLine {
  kHeader,
  kRow,
  kUnclear,  // It would be a silent error to take it for either.
};

// needs_labels: see FindColumns(). With config.csv.header it is a row only if it cannot have names.
FirstLine FirstLineOf(const DataConfig& config, std::string_view line, bool needs_labels);

// Whether the header has the name of a column, in whatever case.
bool HasName(const DataConfig& config, std::string_view header);

}  // namespace simurgh
