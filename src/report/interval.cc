#include "report/interval.h"

#include <algorithm>
#include <cstddef>

#include <boost/math/distributions/students_t.hpp>

namespace simurgh {

Interval StudentInterval(double mean, double standard_error, double freedom) {
  if (!(freedom >= 1) || std::isnan(standard_error)) return {};
  const boost::math::students_t_distribution<double> student(freedom);
  const double reach = boost::math::quantile(student, 0.975) * standard_error;
  return {mean - reach, mean + reach};
}

Interval WilsonInterval(double successes, double trials) {
  if (!(trials > 0)) return {};
  constexpr double kNormal = 1.959963984540054;  // The quantile 0.975 of the normal distribution.
  const double share = successes / trials;
  const double square = kNormal * kNormal;
  const double centre = (share + square / (2 * trials)) / (1 + square / trials);
  const double reach = kNormal *
                       std::sqrt(share * (1 - share) / trials + square / (4 * trials * trials)) /
                       (1 + square / trials);
  return {std::max(0.0, centre - reach), std::min(1.0, centre + reach)};
}

Interval PercentileInterval(std::vector<double> replicates) {
  const size_t all = replicates.size();
  std::erase_if(replicates, [](double one) { return std::isnan(one); });
  if (replicates.empty() || 2 * replicates.size() < all) return {};
  std::ranges::sort(replicates);
  const auto percentile = [&](double share) {
    const double place = share * static_cast<double>(replicates.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, replicates.size() - 1);
    const double part = place - static_cast<double>(below);
    return replicates[below] + part * (replicates[above] - replicates[below]);
  };
  return {percentile(0.025), percentile(0.975)};
}

}  // namespace simurgh
