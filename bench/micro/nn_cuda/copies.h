#pragma once

#include "base/status.h"

namespace simurgh::bench {

// GB/s of copies of a gigabyte.
struct CopyRates {
  double on_device = 0;  // Bytes read plus bytes written.
  double to_device = 0;  // From pinned memory.
  double to_host = 0;    // To pinned memory.
};

// Errors: NOT_FOUND without a device; those of CUDA.
StatusOr<CopyRates> MeasureCopies();

}  // namespace simurgh::bench
