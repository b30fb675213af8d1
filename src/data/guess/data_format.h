#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"

namespace simurgh {

// Returns the format by the ending of a file's name: Parquet, also of a folder, or Arrow; else CSV.
// Errors: INVALID_ARGUMENT with a remedy for a spreadsheet or another file that is no text.
StatusOr<DataConfig::Format> FormatOfName(const std::string& path);

// Returns the format of a text file that begins with these lines, without blank ones.
// Errors: INVALID_ARGUMENT with a remedy for a text that cannot be read as rows.
StatusOr<DataConfig::Format> FormatOfLines(const std::vector<std::string>& lines);

// Returns one more than the greatest field of a line of libffm, or 1.
uint32_t FieldsOf(std::string_view line);

}  // namespace simurgh
