#pragma once

#include <string>

#include "base/status.h"
#include "bench/micro/worker/options.h"

namespace simurgh::bench {

// Measures and prints. programs: the folder of the daemons.
Status RunWorkerSuite(const WorkerBenchOptions& options, const std::string& programs);

}  // namespace simurgh::bench
