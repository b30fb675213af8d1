#pragma once

#include <cstddef>
#include <cstdint>

#include "config/table_config.h"

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
  RequestTimes cpu;  // CPU time of the thread.
};

// Inserts rows into an empty table of this layout, `batch` per request, on untouched memory.
// Requires at least one whole request.
Growth MeasureGrowth(const TableConfig& config, uint64_t rows, size_t batch);

}  // namespace simurgh::bench
