#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::bench {

struct BatchBenchOptions {
  std::vector<std::string> distributions;  // Of kDistributions.
  std::vector<size_t> samples;
  double missing = 0.03;
  size_t turns = 5;
  bool json = false;
};

// The options of the command line; nothing when --help or --version was answered on `out`.
// Errors: INVALID_ARGUMENT naming the option.
StatusOr<std::optional<BatchBenchOptions>> ParseBatchBenchOptions(int argc, const char* const* argv,
                                                                  std::ostream& out);

}  // namespace simurgh::bench
