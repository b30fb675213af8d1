#include "report/interval.h"

#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("Student's intervals have the quantiles of tables") {
  // Quantiles 0.975 of Student's distribution: 12.706, 2.228 and 1.984.
  CHECK(StudentInterval(0, 1, 1).high == Approx(12.7062).epsilon(1e-5));
  CHECK(StudentInterval(5, 2, 10).high == Approx(5 + 2 * 2.228139).epsilon(1e-6));
  CHECK(StudentInterval(5, 2, 10).low == Approx(5 - 2 * 2.228139).epsilon(1e-6));
  CHECK(StudentInterval(0, 1, 100).high == Approx(1.983972).epsilon(1e-6));
  CHECK_FALSE(StudentInterval(0, 1, 0).is_known());
  CHECK_FALSE(StudentInterval(0, std::nan(""), 5).is_known());
}

TEST_CASE("Wilson's intervals stay within 0 and 1") {
  // Values of R's prop.test(x, n, correct = FALSE).
  const Interval some = WilsonInterval(8, 20);
  CHECK(some.low == Approx(0.2188065).epsilon(1e-6));
  CHECK(some.high == Approx(0.6134185).epsilon(1e-6));
  const Interval none = WilsonInterval(0, 10);
  CHECK(none.low == 0);
  CHECK(none.high == Approx(0.2775328).epsilon(1e-6));
  CHECK_FALSE(WilsonInterval(0, 0).is_known());
}

TEST_CASE("Percentiles leave out what is not a number") {
  std::vector<double> values;
  for (int i = 0; i <= 1'000; ++i) values.push_back(1'000 - i);
  CHECK(PercentileInterval(values).low == Approx(25));
  CHECK(PercentileInterval(values).high == Approx(975));
  values.insert(values.end(), 900, std::nan(""));
  CHECK(PercentileInterval(values).low == Approx(25));
  values.insert(values.end(), 200, std::nan(""));
  CHECK_FALSE(PercentileInterval(values).is_known());
  CHECK_FALSE(PercentileInterval({}).is_known());
}

}  // namespace
}  // namespace simurgh
