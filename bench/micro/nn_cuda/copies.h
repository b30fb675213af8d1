#pragma once

#include "simurgh/base/status.h"

namespace simurgh::bench {

// GB/s of a copy of a gigabyte.
struct CopyRates {
  double on_device = 0;  // Bytes read and bytes written.
  double to_device = 0;  // From pinned memory.
  double to_host = 0;    // Into it.
};

// Errors: NOT_FOUND without a device; of CUDA.
StatusOr<CopyRates> MeasureCopies();

}  // namespace simurgh::bench
