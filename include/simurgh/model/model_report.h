#pragma once

#include <string>

#include "simurgh/base/status.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {

// What `simurgh model list` prints: a line per checkpoint, the oldest step first.
// Errors: of ModelDirectory::Steps.
StatusOr<std::string> ListCheckpoints(ModelDirectory& model);

// What `simurgh model info` prints: the manifest, and the tensors of each file.
// Errors: of TensorFileReader::Open.
StatusOr<std::string> DescribeCheckpoint(const Checkpoint& checkpoint);

}  // namespace simurgh
