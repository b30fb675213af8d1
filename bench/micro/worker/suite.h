#pragma once

#include <string>

#include "bench/micro/worker/options.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

// Measures and prints. programs: the folder in which the daemons lie.
Status RunWorkerSuite(const WorkerBenchOptions& options, const std::string& programs);

}  // namespace simurgh::bench
