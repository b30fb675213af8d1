#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/interval.h"
#include "report/labelled_rows.h"

namespace simurgh {

// Rows with neighbouring predictions.
struct PredictionBin {
  uint64_t rows = 0;
  double weight = 0;
  double lowest = 0;  // Predictions of the rows.
  double highest = 0;
  double prediction = 0;  // Means over the rows, weighted.
  double label = 0;
  Interval interval;     // Interval of the mean label.
  double low_label = 0;  // Percentiles 10 and 90 of the labels.
  double high_label = 0;
};

// Splits rows by their predictions into ten parts of about equal numbers of rows. Rows with equal
// predictions are in one part, that of the first of them; so there may be fewer parts. The interval
// of a share is Wilson's with the effective number of rows, (sum of weights)^2 / sum of squared
// weights. That of numbers is Student's.
// are_shares: labels are 0 or 1.
std::vector<PredictionBin> DecilesOf(const LabelledRows& rows, bool are_shares);

// The rows whose predictions are at least a threshold, taken as positive.
struct OperatingPoint {
  double threshold = 0;
  double share = 0;      // Selected share of all weight.
  double recall = 0;     // Selected share of the positives' weight: the true positive rate.
  double fall_out = 0;   // Selected share of the negatives' weight: the false positive rate.
  double precision = 0;  // Positives' share of the selected weight.
};

// Curves of a binary label. Empty unless there are positives and negatives.
struct RankingCurves {
  // Distinct thresholds, the highest first: all of them, or some that are evenly spaced by rank.
  std::vector<OperatingPoint> points;
  // The thresholds that select the first 1, 5, 10, 20 and 50 % of the rows, with ties.
  std::vector<OperatingPoint> choices;
  // Sum of precision times the growth of recall over all thresholds.
  double average_precision = 0;
};
RankingCurves CurvesOf(const LabelledRows& rows);

// Counts of values in bins of equal width.
struct BinnedCounts {
  double low = 0;
  double width = 0;  // Width of a bin.
  // Sums of weights: of label 1 or of all values, and of label 0.
  std::vector<double> first;
  std::vector<double> second;
};

// Returns the predictions of label 1 and of label 0.
BinnedCounts ScoresByLabel(const LabelledRows& rows);

// Returns the percentiles 1, 5, 25, 50, 75, 95 and 99, linear between neighbours.
std::vector<double> PercentilesOf(std::vector<float> values);

// Residuals of a label of numbers: label less prediction.
struct Residuals {
  double mean = 0;
  double mean_absolute = 0;
  double r_squared = 0;             // 1 less the squared error over the variance. NaN: no variance.
  std::vector<double> percentiles;  // See PercentilesOf(); weights do not count.
  BinnedCounts histogram;           // From percentile 0.5 to 99.5; others count at the ends.
};
Residuals ResidualsOf(const LabelledRows& rows);

}  // namespace simurgh
