#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/guess/column_profile.h"
#include "simurgh/base/status.h"

namespace simurgh {

// The first rows of a CSV file.
struct CsvSample {
  char separator = ',';
  std::vector<std::string> header;
  std::string header_line;
  std::vector<ColumnProfile> columns;
  uint64_t rows = 0;
  bool is_whole = false;  // The file has no other rows.
};

// Errors: of reading; INVALID_ARGUMENT with place and remedy for a file that has no rows, no header
// or one column, that is no text, or has quotes over lines, or more than 1 % rows of other lengths.
StatusOr<CsvSample> SampleCsv(const std::string& path, uint64_t max_rows);

}  // namespace simurgh
