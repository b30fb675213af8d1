#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace simurgh {

// An interval that holds a value with a confidence of 95 %. NaN: unknown.
struct Interval {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();

  bool is_known() const { return !std::isnan(low) && !std::isnan(high); }
  bool Holds(double value) const { return low <= value && value <= high; }
};

// Returns mean +- t * standard_error, where t is the quantile of Student's distribution with
// `freedom` degrees. Unknown for a freedom below 1.
Interval StudentInterval(double mean, double standard_error, double freedom);

// Returns the interval of a share: `successes` of `trials`, which may be sums of weights. Unknown
// without trials.
// Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22,
// 1927.
Interval WilsonInterval(double successes, double trials);

// Returns the percentiles 2.5 and 97.5 of replicates of a bootstrap. Leaves out NaN. Unknown if
// that is more than half of them.
Interval PercentileInterval(std::vector<double> replicates);

}  // namespace simurgh
