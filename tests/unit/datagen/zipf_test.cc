#include "bench/datagen/zipf.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

std::vector<double> Probabilities(size_t count, double exponent) {
  std::vector<double> probabilities;
  double sum = 0.0;
  for (size_t rank = 0; rank < count; ++rank) {
    probabilities.push_back(std::pow(rank + 1.0, -exponent));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

TEST_CASE("Ranks are drawn with their probabilities") {
  const double exponent = GENERATE(0.01, 0.5, 0.999999999, 1.0, 1.0000001, 1.05, 2.0, 4.0);
  const size_t count = GENERATE(1, 2, 3, 10, 1'000);
  CAPTURE(exponent, count);
  const std::vector<double> probabilities = Probabilities(count, exponent);
  const ZipfSampler sampler(count, exponent);
  Random random(count);
  constexpr int kDraws = 100'000;
  std::vector<int> seen(count);
  for (int n = 0; n < kDraws; ++n) {
    const uint64_t rank = sampler.Draw(random);
    REQUIRE(rank < count);
    ++seen[rank];
  }
  // Pearson's statistic over ranks expected often enough, the others as one class: its mean is the
  // number of classes less one, its deviation the root of twice that.
  double statistic = 0.0;
  double classes = 0.0;
  double rare_expected = 0.0;
  double rare_seen = 0.0;
  const auto add = [&](double expected, double actual) {
    statistic += (actual - expected) * (actual - expected) / expected;
    classes += 1.0;
  };
  for (size_t rank = 0; rank < count; ++rank) {
    const double expected = probabilities[rank] * kDraws;
    if (expected >= 10.0) {
      add(expected, seen[rank]);
    } else {
      rare_expected += expected;
      rare_seen += seen[rank];
    }
  }
  if (rare_expected >= 10.0) add(rare_expected, rare_seen);
  CHECK(statistic < classes + 5.0 * std::sqrt(2.0 * classes));
}

TEST_CASE("Large counts: the head is as frequent as the sum says, and the tail is reached") {
  constexpr uint64_t kCount = 10'131'227;
  const ZipfSampler sampler(kCount, 1.05);
  Random random(5);
  const double head_probability = Probabilities(kCount, 1.05)[0];
  constexpr int kDraws = 200'000;
  double head = 0.0;
  uint64_t largest = 0;
  for (int n = 0; n < kDraws; ++n) {
    const uint64_t rank = sampler.Draw(random);
    head += rank == 0 ? 1.0 : 0.0;
    largest = std::max(largest, rank);
  }
  const double deviation = std::sqrt(head_probability * (1.0 - head_probability) / kDraws);
  CHECK(std::abs(head / kDraws - head_probability) < 5.0 * deviation);
  CHECK(largest > kCount / 2);
  CHECK(largest < kCount);
}

}  // namespace
}  // namespace simurgh
