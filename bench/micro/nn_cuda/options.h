#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simurgh::bench {

struct NnCudaOptions {
  std::vector<std::string> networks;
  std::vector<uint32_t> batches;
  std::vector<std::string> precisions;
  uint32_t repeats = 0;     // Repetitions in a row.
  bool eager = false;       // Without CUDA graphs.
  bool steps_only = false;  // Without the products of each layer.
  bool choose = false;      // Print the table of choices for products instead.
  bool json = false;
};

}  // namespace simurgh::bench
