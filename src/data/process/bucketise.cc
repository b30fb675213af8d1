#include "data/process/bucketise.h"

#include <algorithm>

#include "simurgh/base/check.h"

namespace simurgh {

uint64_t BucketOf(std::span<const double> boundaries, double value) {
  return std::upper_bound(boundaries.begin(), boundaries.end(), value) - boundaries.begin();
}

std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets) {
  SIMURGH_CHECK_LT(0U, buckets);
  std::sort(values.begin(), values.end());
  std::vector<double> boundaries;
  for (uint64_t bucket = 1; bucket < buckets && !values.empty(); ++bucket) {
    const double boundary = values[bucket * values.size() / buckets];
    // A boundary at the smallest value would leave the first bucket empty.
    const double last = boundaries.empty() ? values.front() : boundaries.back();
    if (boundary > last) boundaries.push_back(boundary);
  }
  return boundaries;
}

}  // namespace simurgh
