#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

struct PsBenchOptions {
  std::vector<std::string> transports = {"tcp", "unix", "shm"};
  std::vector<uint32_t> dims = {16, 64};
  std::vector<uint32_t> in_flight = {1, 4};
  std::vector<uint32_t> partitions = {1, 2};
  uint64_t rows = 1'000'000;
  double seconds = 0.3;  // Of a measurement.
  size_t turns = 5;
  bool json = false;
};

// Nothing after --help or --version, whose text goes to `out`.
//
// Errors: INVALID_ARGUMENT, one line.
StatusOr<std::optional<PsBenchOptions>> ParsePsBenchOptions(int argc, const char* const* argv,
                                                            std::ostream& out);

}  // namespace simurgh::bench
