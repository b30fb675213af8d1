#pragma once

#include <cstddef>
#include <vector>

#include "bench/micro/table/rounds.h"
#include "config/table_config.h"

namespace simurgh::bench {

struct IdSpaces {
  // Pulls and pushes of ids 0, 1, 2 and so on, and, bounded by them, of ids spread over 2^63.
  std::vector<Measurement> measurements;
  double bytes_per_row = 0;  // Where ids are spread.
  double evicted = 0;        // A drawn id, there.
};

// Two full tables of config.capacity_rows rows serve the same numbers, drawn by Zipf's law from
// eight times as many, so that rows are evicted. In one table a number is the id. In the other the
// id is one of 8 * 10^11 values at equal distances from 0 to 2^63.
IdSpaces MeasureIdSpaces(const TableConfig& config, size_t batch, size_t turns);

}  // namespace simurgh::bench
