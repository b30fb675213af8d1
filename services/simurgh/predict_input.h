#pragma once

#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"

namespace simurgh {

// Rows to predict.
struct PredictInput {
  DataConfig data;  // As of the model, in the format of the files.
  std::vector<std::string> files;
};

// path: "-" for stdin, a file, a folder, or a pattern. The endings of the files tell their format
// if the training's rows had names; otherwise, and for other endings, it is that of the training.
// Errors: NOT_FOUND without a file; INVALID_ARGUMENT for files of several formats.
StatusOr<PredictInput> InputOf(const DataConfig& training, const std::string& path);

}  // namespace simurgh
