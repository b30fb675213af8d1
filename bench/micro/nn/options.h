#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

struct NnBenchOptions {
  std::vector<std::string> models;  // light, paper, dlrm, dcn
  std::vector<uint32_t> batches;
  std::vector<std::string> precisions;  // f32, bf16
  uint32_t threads = 1;
  double seconds = 1;  // Of a measurement, at least.
  uint32_t turns = 5;  // Times that everything is measured.
  bool json = false;
};

// Nothing after --help and --version, which write to `out`. Errors: INVALID_ARGUMENT.
StatusOr<std::optional<NnBenchOptions>> ParseNnBenchOptions(int argc, char** argv,
                                                            std::ostream& out);

}  // namespace simurgh::bench
