#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "config/data_config.h"
#include "data/guess/kept_rows.h"

namespace simurgh {

// How much less one prediction loses than another, on the same rows.
struct Gain {
  double mean = 0;
  double error = 0;  // Standard error of `mean`.

  // Whether it is above what noise gives, and matters. constant: loss of a constant.
  bool IsSure(double constant) const;
};

// How well one column alone predicts the label. All predictions are of rows that their statistics
// do not contain. Losses are means over the rows: log loss, or, of a label of numbers, the squared
// error as a share of the variance.
struct Evidence {
  uint64_t rows = 0;    // With a cell and a label; 0: too few, and nothing below is set.
  double constant = 0;  // Of a constant.
  double by_value = 0;  // Of the mean label of each value, shrunk to that of all rows.
  // Only of columns of numbers:
  double by_number = 0;  // Of a linear function of the number, or of its log1p.
  double by_range = 0;   // Of the mean label of each of `ranges` ranges with equally many rows.
  uint32_t ranges = 0;
  bool are_integral = false;  // All numbers are integers, such as 3 or 3.0.

  Gain number;               // Of the number over a constant.
  Gain smooth;               // Of the better one of number and ranges over a constant.
  Gain value_beyond_smooth;  // Of values shrunk to the number's or range's prediction, over these.
  Gain value_over_smooth;    // Of the mean of each value over these.

  bool IsSureBy(const Gain& gain) const { return rows > 0 && gain.IsSure(constant); }
  double least() const;  // Loss of the best one.

  // Loss of the mean labels of rows with and without a cell, over all rows with a label, and that
  // of a constant. Infinite: too few rows.
  double by_presence = std::numeric_limits<double>::infinity();
  double constant_of_all = 0;
};

// The labels of kept rows.
class KeptLabels {
 public:
  // label: the column's configuration.
  KeptLabels(const KeptRows& rows, size_t column, const ColumnConfig& label);

  // Errors of `column`. is_log: number is log1p of it. format: of its numbers.
  Evidence Measure(size_t column, bool is_numeric, bool is_log, const NumberFormat& format) const;

 private:
  void MeasurePresence(size_t column, Evidence& evidence) const;

  const KeptRows& rows_;
  bool is_binary_;
  std::vector<double> labels_;  // By row; NaN: unknown. Numbers have mean 0 and deviation 1.
};

}  // namespace simurgh
