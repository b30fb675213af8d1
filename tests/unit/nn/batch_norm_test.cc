#include "nn/cpu/batch_norm.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

struct Shape {
  size_t rows;
  size_t columns;
};

// Sizes around the tile of 64 columns and the block of 64 rows.
const std::vector<Shape> kShapes{{1, 1},   {2, 3},     {63, 64}, {64, 65},
                                 {65, 63}, {200, 130}, {1000, 7}};

TEST_CASE("batch norm equals its definition in f64 at every size") {
  for (const auto [rows, columns] : kShapes) {
    CAPTURE(rows, columns);
    Random random(rows * 1000 + columns);
    std::vector<float> x = NormalValues(rows * columns, random);
    for (float& value : x) value = 3 * value + 20;  // A mean far from 0.
    const std::vector<float> dy = NormalValues(rows * columns, random);
    const std::vector<float> scale = NormalValues(columns, random);
    const std::vector<float> shift = NormalValues(columns, random);
    const float epsilon = 1e-3F;

    std::vector<float> mean(columns);
    std::vector<float> variance(columns);
    std::vector<float> y(rows * columns);
    cpu::BatchNormForward({x.data(), rows, columns}, {scale, shift}, epsilon, mean, variance,
                          {y.data(), rows, columns});
    std::vector<float> dscale(columns);
    std::vector<float> dshift(columns);
    std::vector<float> dx(rows * columns);
    REQUIRE(cpu::BatchNormBackward({x.data(), rows, columns}, {dy.data(), rows, columns}, scale,
                                   epsilon, {mean, variance}, nullptr, dscale, dshift,
                                   {dx.data(), rows, columns})
                .ok());

    const auto n = static_cast<double>(rows);
    for (size_t c = 0; c < columns; ++c) {
      double m = 0;
      double v = 0;
      for (size_t r = 0; r < rows; ++r) m += x[r * columns + c] / n;
      for (size_t r = 0; r < rows; ++r) v += std::pow(x[r * columns + c] - m, 2) / n;
      const double deviation = std::sqrt(v + double{epsilon});
      double sum_dy = 0;
      double sum_dy_hat = 0;
      for (size_t r = 0; r < rows; ++r) {
        const double hat = (x[r * columns + c] - m) / deviation;
        sum_dy += dy[r * columns + c];
        sum_dy_hat += dy[r * columns + c] * hat;
      }
      CHECK(mean[c] == Approx(m).epsilon(1e-6));
      CHECK(variance[c] == Approx(v).epsilon(1e-5).margin(1e-9));
      CHECK(dshift[c] == Approx(sum_dy).margin(1e-4));
      CHECK(dscale[c] == Approx(sum_dy_hat).margin(1e-3));
      for (size_t r = 0; r < rows; ++r) {
        const double hat = (x[r * columns + c] - m) / deviation;
        const double expected_dx =
            scale[c] / deviation * (dy[r * columns + c] - sum_dy / n - hat * sum_dy_hat / n);
        if (std::abs(y[r * columns + c] - (hat * scale[c] + shift[c])) > 2e-5 ||
            std::abs(dx[r * columns + c] - expected_dx) > 2e-5 * std::max(1.0, 1 / deviation)) {
          FAIL("row " << r << " column " << c << ": y " << y[r * columns + c] << ", dx "
                      << dx[r * columns + c] << " instead of " << expected_dx);
        }
      }
    }
  }
}

TEST_CASE("a column of one value is normalised to its shift") {
  const std::vector<float> x(40, 1234.5F);
  const std::vector<float> scale{2.0F};
  const std::vector<float> shift{0.25F};
  std::vector<float> mean(1);
  std::vector<float> variance(1);
  std::vector<float> y(40);
  cpu::BatchNormForward({x.data(), 40, 1}, {scale, shift}, 1e-5F, mean, variance,
                        {y.data(), 40, 1});
  CHECK(mean[0] == 1234.5F);
  CHECK(variance[0] == 0.0F);
  CHECK(y == std::vector<float>(40, 0.25F));
}

TEST_CASE("running statistics follow the unbiased variance, and the biased one of a single row") {
  std::vector<float> mean{1.0F};
  std::vector<float> variance{2.0F};
  const std::vector<float> batch_mean{5.0F};
  const std::vector<float> batch_variance{3.0F};
  cpu::BatchNormUpdateRunning(4, 0.25F, batch_mean, batch_variance, mean, variance);
  CHECK(mean[0] == 2.0F);      // 0.75 * 1 + 0.25 * 5
  CHECK(variance[0] == 2.5F);  // 0.75 * 2 + 0.25 * 3 * 4 / 3
  cpu::BatchNormUpdateRunning(1, 0.5F, batch_mean, batch_variance, mean, variance);
  CHECK(variance[0] == 2.75F);  // 0.5 * 2.5 + 0.5 * 3
}

}  // namespace
}  // namespace simurgh::testing
