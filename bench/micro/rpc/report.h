#pragma once

#include <iosfwd>
#include <vector>

#include "bench/micro/rpc/sweep.h"

namespace simurgh::bench {

// One JSON object a line for each contestant: medians and their spread.
void PrintJson(const PointResult& result, std::ostream& out);

// The table's rows, one point at a time, followed by the ratios of medians.
void PrintTableHead(std::ostream& out);
void PrintTableRows(const PointResult& result, std::ostream& out);
void PrintRatios(const std::vector<PointResult>& results, std::ostream& out);

}  // namespace simurgh::bench
