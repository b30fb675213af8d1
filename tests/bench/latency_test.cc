#include "bench/support/latency.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh::bench {
namespace {

// The value at the rank that Quantile means.
double Reference(std::vector<uint64_t> values, double quantile) {
  std::ranges::sort(values);
  const auto wanted = static_cast<size_t>(quantile * static_cast<double>(values.size()) + 0.5);
  return static_cast<double>(values[wanted == 0 ? 0 : wanted - 1]);
}

TEST_CASE("quantiles are those of the sorted durations, within a bucket") {
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  Random random(seed);
  std::vector<uint64_t> values;
  LatencyHistogram histogram;
  for (int i = 0; i < 10'000; ++i) {
    // From nanoseconds to hours.
    const uint64_t value = random() >> (20 + random.Below(44));
    values.push_back(value);
    histogram.Record(value);
  }
  for (const double quantile : {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double expected = Reference(values, quantile);
    CAPTURE(quantile, expected);
    CHECK(std::abs(histogram.Quantile(quantile) - expected) <= expected / 128);
  }
}

TEST_CASE("short durations are exact, the longest fits, none is 0") {
  LatencyHistogram histogram;
  CHECK(histogram.Quantile(0.5) == 0);
  for (uint64_t value = 1; value <= 255; ++value) histogram.Record(value);
  CHECK(histogram.Quantile(0.5) == 128);
  LatencyHistogram longest;
  longest.Record(~uint64_t{0});
  CHECK(longest.Quantile(0.5) == Approx(0x1p64).epsilon(0.01));
}

}  // namespace
}  // namespace simurgh::bench
