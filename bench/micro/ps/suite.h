#pragma once

#include <string>

#include "base/status.h"
#include "bench/micro/ps/options.h"

namespace simurgh::bench {

// Runs all measurements and prints each when it is done. program: this program's path; its folder
// holds embedding-ps.
// Errors: of the processes and calls.
Status RunPsSuite(const PsBenchOptions& options, const std::string& program);

}  // namespace simurgh::bench
