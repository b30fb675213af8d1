#pragma once

#include "simurgh/config/data_config.h"

namespace simurgh {

double Transformed(ColumnConfig::Transform transform, double value);

// (Transformed(value) - mean) / stddev; may be infinite.
float Scaled(const ColumnConfig& column, double value);

// Mean and deviation of a sequence of numbers.
// Source: Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
class Moments {
 public:
  void Add(double value);

  double count() const { return count_; }
  double mean() const { return mean_; }
  double stddev() const;  // Population deviation; 0 for fewer than two numbers.

 private:
  double count_ = 0.0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // Sum of the squared distances from the mean.
};

}  // namespace simurgh
