#pragma once

#include "services/runtime/exit_code.h"

namespace simurgh {

inline constexpr char kPredictUsage[] =
    "  simurgh predict --model MODEL ...  predict rows of a file: simurgh predict --help\n";

// Runs `simurgh predict`. argv[0]: `predict`. Output on stdout, progress and errors on stderr.
ExitCode RunPredictCommand(int argc, const char* const* argv);

}  // namespace simurgh
