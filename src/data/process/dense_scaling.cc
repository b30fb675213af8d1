#include "data/process/dense_scaling.h"

#include <cmath>

namespace simurgh {

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
