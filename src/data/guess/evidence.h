#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "config/data_config.h"
#include "data/guess/cross_finder.h"
#include "data/guess/kept_rows.h"

namespace simurgh {

// Difference between the losses of two predictions on the same rows; above 0 for a better one.
struct Gain {
  double mean = 0;
  double error = 0;  // Standard error of `mean`.

  // Returns whether the gain is above noise, and matters. constant: loss of a constant.
  bool IsSure(double constant) const;
};

// Losses of predictions of the label from one column alone. Predictions of a row use statistics of
// other rows. Losses are means over the rows: log loss, or, for a label of numbers, the squared
// error as a share of the variance.
struct Evidence {
  uint64_t rows = 0;    // Rows with a cell and a label; 0: too few for all but by_presence.
  double constant = 0;  // Loss of a constant.
  double by_value = 0;  // Loss of the mean label of each value, shrunk to that of all rows.
  // The members from here to value_over_smooth are for columns of numbers.
  double by_number = 0;  // Loss of a linear function of the number, or of its log1p.
  double by_range = 0;   // Loss of the mean label of `ranges` ranges with equally many rows.
  uint32_t ranges = 0;
  bool are_integral = false;  // All numbers are integers, such as 3 or 3.0.

  // The smooth prediction is the better one of by_number and by_range.
  Gain number;               // Gain of by_number over a constant.
  Gain smooth;               // Gain of the smooth prediction over a constant.
  Gain value_beyond_smooth;  // Gain of values shrunk to the smooth prediction over it.
  Gain value_over_smooth;    // Gain of by_value over the smooth prediction.

  bool IsSureBy(const Gain& gain) const { return rows > 0 && gain.IsSure(constant); }
  double least() const;  // Returns the loss of the best prediction.

  // Loss of the mean labels of rows with and without a cell, over all rows with a label, and the
  // loss of a constant on these. Infinite: too few rows.
  double by_presence = std::numeric_limits<double>::infinity();
  double constant_of_all = 0;
};

// The labels of kept rows.
class KeptLabels {
 public:
  // label: the column's configuration.
  KeptLabels(const KeptRows& rows, size_t column, const ColumnConfig& label);

  // Returns the losses of `column`. is_log: number is its log1p. format: that of its numbers.
  Evidence Measure(size_t column, bool is_numeric, bool is_log, const NumberFormat& format) const;

  // Returns the crosses of some of `columns`.
  std::vector<Cross> FindCrosses(const std::vector<size_t>& columns) const;

 private:
  void MeasurePresence(size_t column, Evidence& evidence) const;

  const KeptRows& rows_;
  bool is_binary_;
  // One per row; NaN: unknown. Numbers have mean 0 and deviation 1.
  std::vector<double> labels_;
};

}  // namespace simurgh
