#pragma once

#include <string>

#include "bench/micro/ps/options.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

// Runs everything and prints it as it comes. program: this program's own path, beside which
// embedding-ps lies.
// Errors: of the processes and calls.
Status RunPsSuite(const PsBenchOptions& options, const std::string& program);

}  // namespace simurgh::bench
