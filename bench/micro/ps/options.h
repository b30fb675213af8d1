#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simurgh::bench {

struct PsBenchOptions {
  std::vector<std::string> transports;
  std::vector<uint32_t> dims;
  std::vector<uint32_t> in_flight;
  std::vector<uint32_t> partitions;
  uint64_t rows = 0;
  double seconds = 0;  // Per measurement.
  size_t turns = 0;
  bool json = false;
};

}  // namespace simurgh::bench
