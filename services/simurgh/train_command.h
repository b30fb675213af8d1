#pragma once

#include "services/runtime/exit_code.h"

namespace simurgh {

inline constexpr char kTrainUsage[] =
    "  simurgh train CONFIG [options]     run all daemons of a configuration and train\n";

// Runs `simurgh train`. argv[0] is "train". Progress and errors on stderr, the result on stdout.
ExitCode RunTrainCommand(int argc, const char* const* argv);

}  // namespace simurgh
