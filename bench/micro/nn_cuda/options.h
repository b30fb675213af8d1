#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh::bench {

struct NnCudaOptions {
  std::vector<std::string> networks;  // paper, dlrm, dcn
  std::vector<uint32_t> batches;
  std::vector<std::string> precisions;  // f32, tf32, bf16
  uint32_t repeats = 50;                // Of a measurement, of which the median counts.
  bool eager = false;                   // No graphs.
  bool layers = true;                   // Also each layer's products.
  bool json = false;
  bool peer = false;  // The same steps in PyTorch, too.
};

ComputePrecision PrecisionOf(const std::string& name);

// Nothing after --help and --version, which write to `out`. Errors: INVALID_ARGUMENT.
StatusOr<std::optional<NnCudaOptions>> ParseNnCudaOptions(int argc, char** argv, std::ostream& out);

}  // namespace simurgh::bench
