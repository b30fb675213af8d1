#pragma once

#include "services/runtime/exit_code.h"

namespace simurgh {

inline constexpr char kModelUsage[] =
    "  simurgh model list MODEL           list the checkpoints of a model\n"
    "  simurgh model info MODEL [STEP]    print a checkpoint's manifest and tensors\n"
    "  simurgh model verify MODEL [STEP]  read all files of a checkpoint and check them\n"
    "  simurgh model diff MODEL OTHER     print what differs between two models\n"
    "  simurgh model export MODEL TABLE FILE [--ids IDS]\n"
    "                                     write rows of a table as CSV, or as NPZ to FILE.npz\n";

// Runs `simurgh model`. argv[0] is "model". Output on stdout, progress and errors on stderr.
ExitCode RunModelCommand(int argc, const char* const* argv);

}  // namespace simurgh
