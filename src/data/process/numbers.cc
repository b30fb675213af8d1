#include "data/process/numbers.h"

#include <algorithm>
#include <cmath>

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

double Transformed(ColumnConfig::Transform transform, double value) {
  if (transform == ColumnConfig::Transform::kNone) return value;
  return std::copysign(std::log1p(std::abs(value)), value);
}

float Scaled(const ColumnConfig& column, double value) {
  return static_cast<float>((Transformed(column.transform, value) - column.mean) / column.stddev);
}

void Moments::Add(double value) {
  count_ += 1.0;
  const double before = value - mean_;
  mean_ += before / count_;
  squares_ += before * (value - mean_);
}

double Moments::stddev() const { return count_ < 2.0 ? 0.0 : std::sqrt(squares_ / count_); }

}  // namespace simurgh
