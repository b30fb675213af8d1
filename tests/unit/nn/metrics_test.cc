#include "simurgh/nn/metrics.h"

#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

// By definition: over all pairs of a positive and a negative.
double PairCountingAuc(const std::vector<float>& labels, const std::vector<float>& scores) {
  double wins = 0;
  double pairs = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != 1.0F || labels[j] != 0.0F) continue;
      pairs += 1;
      wins += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
    }
  }
  return wins / pairs;
}

TEST_CASE("AUC equals pair counting, with and without ties") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const size_t count = 2 + random.Below(200);
    const uint64_t levels = seed % 2 == 0 ? 5 : 1'000'000;
    std::vector<float> labels(count);
    std::vector<float> scores(count);
    for (size_t i = 0; i < count; ++i) {
      labels[i] = i < 2 ? static_cast<float>(i) : static_cast<float>(random.Below(2));
      scores[i] = static_cast<float>(random.Below(levels)) - 2.0F;
    }
    CHECK(ExactAuc(labels, scores) == Approx(PairCountingAuc(labels, scores)).epsilon(1e-12));
  }
}

TEST_CASE("AUC of a perfect, a reversed and a constant ranking") {
  const std::vector<float> labels{0, 0, 1, 1};
  CHECK(ExactAuc(labels, std::vector<float>{1, 2, 3, 4}) == 1.0);
  CHECK(ExactAuc(labels, std::vector<float>{4, 3, 2, 1}) == 0.0);
  CHECK(ExactAuc(labels, std::vector<float>{7, 7, 7, 7}) == 0.5);
}

TEST_CASE("AUC without a class, without samples or with a NaN score is NaN") {
  CHECK(std::isnan(ExactAuc(std::vector<float>{1, 1}, std::vector<float>{0.1F, 0.2F})));
  CHECK(std::isnan(ExactAuc(std::vector<float>{0, 0}, std::vector<float>{0.1F, 0.2F})));
  CHECK(std::isnan(ExactAuc({}, {})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(ExactAuc(std::vector<float>{0, 1, 1}, std::vector<float>{0.5F, nan, 0.2F})));
}

TEST_CASE("log loss of known probabilities, and clamped at certainty") {
  CHECK(LogLoss(std::vector<float>{1, 0}, std::vector<float>{0.5F, 0.5F}) ==
        Approx(std::log(2.0)).epsilon(1e-12));
  CHECK(LogLoss(std::vector<float>{1, 0}, std::vector<float>{0.25F, 0.25F}) ==
        Approx(-(std::log(0.25) + std::log(0.75)) / 2).epsilon(1e-12));
  CHECK(LogLoss(std::vector<float>{1}, std::vector<float>{0}) ==
        Approx(-std::log(1e-7)).epsilon(1e-9));
  CHECK(LogLoss(std::vector<float>{0}, std::vector<float>{1}) ==
        Approx(-std::log(1e-7)).epsilon(1e-6));
  CHECK(std::isnan(LogLoss({}, {})));
}

}  // namespace
}  // namespace simurgh
