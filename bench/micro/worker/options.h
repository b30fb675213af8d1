#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

// What bench_worker measures. --help explains.
struct WorkerBenchOptions {
  std::vector<std::string> transports;
  std::vector<std::string> precisions;      // Of embeddings and gradients.
  std::vector<std::string> row_precisions;  // Of rows and their gradients.
  std::vector<uint32_t> row_ages;           // Steps for which rows may be used again.
  std::vector<uint32_t> in_flight;
  uint32_t samples = 4'096;  // A batch.
  uint32_t dim = 16;
  double seconds = 3;
  uint32_t turns = 3;
  bool json = false;
};

// Nothing after --help or --version. Errors: INVALID_ARGUMENT.
StatusOr<std::optional<WorkerBenchOptions>> ParseWorkerBenchOptions(int argc,
                                                                    const char* const* argv,
                                                                    std::ostream& out);

}  // namespace simurgh::bench
