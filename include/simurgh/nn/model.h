#pragma once

#include <cstddef>

#include "simurgh/base/status.h"
#include "simurgh/config/model_config.h"

namespace simurgh {

// Whether the towers fit together and can read inputs of these widths.
//
// dense_width, embedding_width: columns; 0 when the data has no such input. An input that no tower
// reads is allowed, a tower that feeds nothing is not. Errors: INVALID_ARGUMENT, naming tower and
// layer (counted from 1) and saying what to change.
Status ValidateModel(const ModelConfig& model, size_t dense_width, size_t embedding_width);

}  // namespace simurgh
