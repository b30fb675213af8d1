#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simurgh::bench {

struct WorkerBenchOptions {
  std::vector<std::string> transports;
  std::vector<std::string> precisions;      // For embeddings and gradients.
  std::vector<std::string> row_precisions;  // For rows and their gradients.
  std::vector<uint32_t> row_ages;           // Values of embedding_worker.row_age_steps.
  std::vector<uint32_t> in_flight;
  uint32_t samples = 0;  // Per batch.
  uint32_t dim = 0;
  double seconds = 0;  // Per measurement.
  uint32_t turns = 0;
  bool json = false;
};

}  // namespace simurgh::bench
