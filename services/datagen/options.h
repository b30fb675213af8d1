#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "services/datagen/teachers.h"
#include "simurgh/base/status.h"
#include "simurgh/data/generator.h"

namespace simurgh {

struct DatagenOptions {
  GeneratorConfig generator;
  Teacher teacher = Teacher::kClicks;
  std::string output;
  uint64_t samples = 0;
  uint64_t first = 0;           // Number of the first sample.
  uint64_t report_samples = 0;  // The report covers this many of the first samples written.
  uint32_t threads = 1;
  bool json = false;
};

// The options of a command line; nothing after --help and --version, which write to `out`.
// Errors: INVALID_ARGUMENT naming the option.
StatusOr<std::optional<DatagenOptions>> ParseDatagenOptions(int argc, const char* const* argv,
                                                            std::ostream& out);

}  // namespace simurgh
