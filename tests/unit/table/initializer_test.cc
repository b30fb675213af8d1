#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "table/new_rows.h"

namespace simurgh {
namespace {

using Kind = InitializerConfig::Kind;

void Fill(const Initializer& initializer, uint64_t id, std::vector<float>& weights) {
  const Initializer::NewWeights row = {id, weights.data()};
  initializer.Fill({&row, 1});
}

std::vector<float> Row(const InitializerConfig& config, std::string_view table, uint32_t dim,
                       uint64_t seed, uint64_t id) {
  std::vector<float> weights(dim);
  Fill(Initializer(config, table, dim, seed), id, weights);
  return weights;
}

struct Moments {
  double mean = 0;
  double variance = 0;
  float lowest = 0;
  float highest = 0;
};

Moments MomentsOf(const InitializerConfig& config, uint32_t dim) {
  const Initializer initializer(config, "t", dim, 1);
  std::vector<float> all;
  std::vector<float> row(dim);
  for (uint64_t id = 0; id < 20'000; ++id) {
    Fill(initializer, id, row);
    all.insert(all.end(), row.begin(), row.end());
  }
  Moments moments;
  for (const float value : all) moments.mean += value;
  moments.mean /= static_cast<double>(all.size());
  for (const float value : all) moments.variance += std::pow(value - moments.mean, 2);
  moments.variance /= static_cast<double>(all.size());
  moments.lowest = *std::min_element(all.begin(), all.end());
  moments.highest = *std::max_element(all.begin(), all.end());
  return moments;
}

TEST_CASE("initial weights depend on seed, table and id alone") {
  const InitializerConfig config{
      .kind = GENERATE(Kind::kUniform, Kind::kNormal, Kind::kTruncatedNormal, Kind::kGamma)};
  const std::vector<float> row = Row(config, "user", 9, 3, 42);
  CHECK(row == Row(config, "user", 9, 3, 42));
  CHECK(row != Row(config, "user", 9, 3, 43));
  CHECK(row != Row(config, "user", 9, 4, 42));
  CHECK(row != Row(config, "item", 9, 3, 42));
  // A wider row begins with the narrower one.
  const std::vector<float> wide = Row(config, "user", 20, 3, 42);
  CHECK(std::equal(row.begin(), row.begin() + 8, wide.begin()));
  // No two weights agree by construction.
  std::vector<float> sorted = wide;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

TEST_CASE("uniform weights fill their half-open range evenly") {
  const Moments moments = MomentsOf({.kind = Kind::kUniform, .low = -0.5F, .high = 1.5F}, 7);
  CHECK(moments.mean == Approx(0.5).margin(0.01));
  CHECK(moments.variance == Approx(4.0 / 12).epsilon(0.02));
  CHECK(moments.lowest >= -0.5F);
  CHECK(moments.lowest < -0.49F);
  CHECK(moments.highest < 1.5F);
  CHECK(moments.highest > 1.49F);
}

TEST_CASE("a range of two adjacent floats never yields its upper end") {
  const float low = 1.0F;
  const float high = std::nextafter(low, 2.0F);
  for (uint64_t id = 0; id < 1000; ++id) {
    for (const float weight :
         Row({.kind = Kind::kUniform, .low = low, .high = high}, "t", 8, 1, id)) {
      REQUIRE(weight == low);
    }
  }
}

TEST_CASE("normal weights have their mean and deviation") {
  const Moments moments = MomentsOf({.kind = Kind::kNormal, .mean = 0.25F, .stddev = 0.125F}, 7);
  CHECK(moments.mean == Approx(0.25).margin(0.002));
  CHECK(moments.variance == Approx(0.125 * 0.125).epsilon(0.02));
}

TEST_CASE("truncated normal weights stay within two deviations") {
  const Moments moments =
      MomentsOf({.kind = Kind::kTruncatedNormal, .mean = 0.25F, .stddev = 0.125F}, 7);
  CHECK(moments.mean == Approx(0.25).margin(0.002));
  // 1 - 4 * density(2) / (2 * Phi(2) - 1) of the whole variance.
  CHECK(moments.variance == Approx(0.773741 * 0.125 * 0.125).epsilon(0.02));
  CHECK(moments.lowest >= 0.0F);
  CHECK(moments.lowest < 0.001F);
  CHECK(moments.highest <= 0.5F);
  CHECK(moments.highest > 0.499F);
}

TEST_CASE("gamma weights have the moments of their shape and scale") {
  const float shape = GENERATE(0.5F, 1.0F, 4.0F);
  const Moments moments = MomentsOf({.kind = Kind::kGamma, .shape = shape, .scale = 0.5F}, 7);
  CHECK(moments.mean == Approx(0.5 * shape).epsilon(0.02));
  CHECK(moments.variance == Approx(0.25 * shape).epsilon(0.04));
  CHECK(moments.lowest >= 0.0F);
}

TEST_CASE("poisson weights are counts with mean and variance alike") {
  const float rate = GENERATE(0.5F, 4.0F, 100.0F);
  const Moments moments = MomentsOf({.kind = Kind::kPoisson, .rate = rate}, 7);
  CHECK(moments.mean == Approx(rate).epsilon(0.02));
  CHECK(moments.variance == Approx(rate).epsilon(0.04));
  CHECK(moments.lowest >= 0.0F);
  for (const float weight : Row({.kind = Kind::kPoisson, .rate = rate}, "t", 64, 1, 5)) {
    CHECK(weight == std::floor(weight));
  }
}

TEST_CASE("inverse square root of the dim bounds both sides; constants are constant") {
  const Moments moments = MomentsOf({.kind = Kind::kInverseSqrtDim}, 16);
  CHECK(moments.lowest >= -0.25F);
  CHECK(moments.lowest < -0.249F);
  CHECK(moments.highest < 0.25F);
  CHECK(moments.highest > 0.249F);
  CHECK(Row({.kind = Kind::kConstant, .value = 0.75F}, "t", 3, 1, 9) ==
        std::vector<float>(3, 0.75F));
  CHECK(Row({.kind = Kind::kZero}, "t", 3, 1, 9) == std::vector<float>(3, 0.0F));
}

}  // namespace
}  // namespace simurgh
