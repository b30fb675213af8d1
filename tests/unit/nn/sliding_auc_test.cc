#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/metrics.h"

namespace simurgh::testing {
namespace {

TEST_CASE("the sliding AUC is that of the last samples, in batches of any size") {
  for (const size_t window : {1, 7, 100, 1000}) {
    CAPTURE(window);
    Random random(window);
    SlidingAuc sliding(window);
    CHECK(std::isnan(sliding.Value()));
    std::vector<float> labels;
    std::vector<float> scores;
    for (int batch = 0; batch < 40; ++batch) {
      const size_t before = labels.size();
      for (uint64_t i = random.Below(30); i > 0; --i) {
        labels.push_back(static_cast<float>(random.Below(2)));
        scores.push_back(static_cast<float>(random.Below(9)));
      }
      sliding.Add(std::span(labels).subspan(before), std::span(scores).subspan(before));
      const size_t last = std::min(window, labels.size());
      const double expected = ExactAuc(std::span(labels).last(last), std::span(scores).last(last));
      CAPTURE(batch);
      CHECK((sliding.Value() == expected || (std::isnan(sliding.Value()) && std::isnan(expected))));
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
