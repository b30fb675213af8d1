#include "nn/cpu/softmax_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Computes the cross entropy and its gradient by definition, in f64. Returns the cross entropy.
double Reference(size_t own, double factor, std::span<const double> scores,
                 std::vector<double>& gradient) {
  const double largest = std::ranges::max(scores);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  gradient.clear();
  for (const double score : scores) gradient.push_back(factor * std::exp(score - largest) / sum);
  gradient[own] -= factor;
  return std::log(sum) + largest - scores[own];
}

TEST_CASE("a row's cross entropy and gradient are those in f64, at every length") {
  Random random(3);
  for (size_t count = 1; count <= 70; ++count) {
    CAPTURE(count);
    std::vector<float> scores(count);
    std::vector<float> corrections(count);
    for (float& score : scores) score = static_cast<float>(16 * random.Uniform() - 8);
    for (float& correction : corrections) correction = static_cast<float>(-8 * random.Uniform());
    std::vector<double> exact(count);
    for (size_t i = 0; i < count; ++i) exact[i] = 2.5 * double{scores[i]} - double{corrections[i]};
    const size_t own = count / 2;
    cpu::CorrectScores(2.5F, corrections, scores);
    if (own > 0) {
      scores[own - 1] = -kInfinity;
      exact[own - 1] = -std::numeric_limits<double>::infinity();
    }
    std::vector<double> gradient;
    const double expected = Reference(own, 0.5, exact, gradient);
    CHECK(cpu::CrossEntropyRow(own, 0.5, scores) == Approx(expected).margin(4e-6));
    for (size_t i = 0; i < count; ++i) {
      CHECK(scores[i] == Approx(gradient[i]).epsilon(1e-5).margin(1e-6));
    }
    if (own > 0) CHECK(scores[own - 1] == 0.0F);
  }
}

TEST_CASE("a score that is not a number makes a row's cross entropy and gradient so") {
  for (const size_t place : {size_t{0}, size_t{17}, size_t{36}}) {
    std::vector<float> scores(37, 1.0F);
    scores[place] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(cpu::CrossEntropyRow(3, 1.0, scores)));
    CHECK(std::ranges::all_of(scores, [](float score) { return std::isnan(score); }));
  }
}

TEST_CASE("scores far apart neither overflow nor cancel") {
  std::vector<float> scores{300.0F, -300.0F, 299.0F};
  CHECK(cpu::CrossEntropyRow(0, 1.0, scores) == Approx(std::log1p(std::exp(-1.0))));
  scores = {20.0F, 0.0F};
  cpu::CrossEntropyRow(0, 1.0, scores);
  CHECK(scores[0] == Approx(-std::exp(-20.0)).epsilon(1e-5).margin(0));
}

}  // namespace
}  // namespace simurgh::testing
