#pragma once

#include <cstddef>
#include <cstdint>

#include "simurgh/config/table_config.h"

namespace simurgh::bench {

// Milliseconds of requests.
struct RequestTimes {
  double median = 0;
  double p99 = 0;
  double p999 = 0;
  double most = 0;
};

struct Growth {
  double rows_per_s = 0;
  RequestTimes wall;
  RequestTimes cpu;  // Of the thread: neither waiting for a core nor other threads' work.
};

// Has an empty table of this layout take in rows, `batch` a request, on memory that nobody has
// touched. Requires at least one whole request.
Growth MeasureGrowth(const TableConfig& config, uint64_t rows, size_t batch);

}  // namespace simurgh::bench
