#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"

namespace simurgh {

// Rows to predict.
struct PredictInput {
  DataConfig data;  // The model's data, in the format of the files.
  std::vector<std::string> files;
};

// Returns the data of a training in the format of other files, which are not empty. The endings of
// the files give their format if the training's rows had names; otherwise, and for other endings,
// the format is that of the training. Errors: INVALID_ARGUMENT for files of several formats.
StatusOr<DataConfig> DataOf(const DataConfig& training, const std::vector<std::string>& files);

// Returns the overrides by which a configuration reads the files as DataOf() does.
// Errors: see DataOf().
StatusOr<std::vector<std::string>> FormatOverrides(const DataConfig& training,
                                                   const std::vector<std::string>& files);

// Returns the rows of a path: "-" for stdin, a file, a folder, or a pattern.
// Errors: NOT_FOUND without a file; those of DataOf().
StatusOr<PredictInput> InputOf(const DataConfig& training, const std::string& path);

// Replaces names of columns by those of the training, where they differ by case only.
std::vector<std::string> OwnNames(std::vector<std::string> names, const DataConfig& data);

// Adds columns that the training did not have, if the cells of rows have names. Returns whether it
// has added some.
bool AddColumns(const std::vector<std::string>& names, DataConfig& data);

}  // namespace simurgh
