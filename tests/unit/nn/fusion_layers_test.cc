// Layers of pieces and norms at the edges of their range.

#include <cmath>
#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/cpu/l2_norm.h"
#include "nn/cpu/layer_norm.h"
#include "nn/cpu/pieces.h"
#include "tensor/matrix_view.h"

namespace simurgh::testing {
namespace {

struct Joint {
  float logit;
  std::vector<float> gradient;
};

Joint JointOf(const std::vector<float>& logits) {
  Joint joint{0, std::vector<float>(logits.size())};
  const float one = 1.0F;
  cpu::JointForward({logits.data(), 1, logits.size()}, {&joint.logit, 1, 1});
  cpu::JointBackward({logits.data(), 1, logits.size()}, {&one, 1, 1},
                     {joint.gradient.data(), 1, logits.size()});
  return joint;
}

TEST_CASE("The joint logit is exact for probabilities near 0 and 1") {
  // Computed with 60 digits by Python's decimal.
  CHECK(JointOf({0, 0}).logit == Approx(-1.0986122886681098).epsilon(1e-7));
  CHECK(JointOf({3, -2}).logit == Approx(-2.0549852353347147).epsilon(1e-6));
  CHECK(JointOf({40, 40}).logit == Approx(39.306852819440055).epsilon(1e-7));
  CHECK(JointOf({-40, -50}).logit == Approx(-90).epsilon(1e-7));
  CHECK(JointOf({80, -3}).logit == Approx(-3).epsilon(1e-7));
  CHECK(JointOf({0, 0}).gradient[0] == Approx(2.0 / 3).epsilon(1e-6));
  CHECK(JointOf({40, 40}).gradient[0] == Approx(0.5).epsilon(1e-6));
  for (const float logit : {-1e4F, -200.0F, 200.0F, 1e4F}) {
    CAPTURE(logit);
    const Joint joint = JointOf({logit, logit, 0});
    CHECK(std::isfinite(joint.logit));
    for (const float gradient : joint.gradient) CHECK(std::isfinite(gradient));
    CHECK(std::isfinite(JointOf({logit, logit}).logit));
    CHECK(std::isfinite(JointOf({logit, logit}).gradient[1]));
  }
}

TEST_CASE("A row of one value is normalised to its shift") {
  for (const size_t columns : {1, 2, 16, 33}) {
    const std::vector<float> x(columns, 1234.5F);
    const std::vector<float> scale(columns, 2.0F);
    const std::vector<float> shift(columns, 0.25F);
    std::vector<float> statistics(2);
    std::vector<float> y(columns);
    cpu::LayerNormForward({x.data(), 1, columns}, scale, shift, 1e-5F, {statistics.data(), 1, 2},
                          {y.data(), 1, columns});
    CHECK(y == shift);
  }
}

TEST_CASE("l2_norm keeps the direction of any row, and a zero row is zero without a gradient") {
  const std::vector<float> dy = {0, 1, 0};
  for (const float size : {1e-11F, 1.0F, 1e30F}) {
    CAPTURE(size);
    const std::vector<float> x = {3 * size, 0, -4 * size};
    std::vector<float> y(3);
    std::vector<float> dx(3);
    cpu::L2NormForward({x.data(), 1, 3}, {y.data(), 1, 3});
    CHECK(y[0] == Approx(0.6));
    CHECK(y[1] == 0);
    CHECK(y[2] == Approx(-0.8));
    cpu::L2NormBackward({x.data(), 1, 3}, {dy.data(), 1, 3}, {dx.data(), 1, 3});
    CHECK(dx[0] == 0);
    CHECK(dx[1] == Approx(1 / (5.0 * size)));
    CHECK(dx[2] == 0);
  }
  const std::vector<float> zero(3, 0.0F);
  std::vector<float> y(3, NAN);
  std::vector<float> dx(3, NAN);
  cpu::L2NormForward({zero.data(), 1, 3}, {y.data(), 1, 3});
  CHECK(y == zero);
  cpu::L2NormBackward({zero.data(), 1, 3}, {dy.data(), 1, 3}, {dx.data(), 1, 3});
  CHECK(dx == zero);
  // A row shorter than the least norm is divided by it.
  const std::vector<float> small = {3e-14F, 0, 0};
  cpu::L2NormForward({small.data(), 1, 3}, {y.data(), 1, 3});
  CHECK(y[0] == Approx(0.03));
  const std::vector<float> unknown = {NAN, 1, 1};
  cpu::L2NormForward({unknown.data(), 1, 3}, {y.data(), 1, 3});
  for (const float value : y) CHECK(std::isnan(value));
}

}  // namespace
}  // namespace simurgh::testing
