#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/calibration.h"
#include "nn/cpu/activation.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/loss.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("linear forward and backward equal their definition in f64 at every size") {
  struct Shape {
    size_t rows, inputs, outputs;
    uint32_t threads = 1;
  };
  // With threads, the last three split products by rows, by depth and by columns.
  for (const auto [rows, inputs, outputs, threads] :
       {Shape{1, 1, 1}, Shape{3, 2, 65}, Shape{65, 70, 1}, Shape{130, 129, 67},
        Shape{400, 130, 67, 3}, Shape{1'500, 50, 101, 2}, Shape{40, 500, 300, 2}}) {
    CAPTURE(rows, inputs, outputs, threads);
    Random random(rows);
    cpu::SetComputeThreads(threads);
    const std::vector<float> x = NormalValues(rows * inputs, random);
    const std::vector<float> w = NormalValues(inputs * outputs, random);
    const std::vector<float> b = NormalValues(outputs, random);
    const std::vector<float> dy = NormalValues(rows * outputs, random);
    std::vector<float> y(rows * outputs, kNan);  // Old values must not matter.
    std::vector<float> dx(rows * inputs, kNan);
    std::vector<float> dw(inputs * outputs, kNan);
    std::vector<float> db(outputs, kNan);
    REQUIRE(cpu::LinearForward({x.data(), rows, inputs}, {w.data(), inputs, outputs}, b,
                               /*relu=*/false, {y.data(), rows, outputs})
                .ok());
    REQUIRE(cpu::LinearBackwardWeight({x.data(), rows, inputs}, {dy.data(), rows, outputs},
                                      {dw.data(), inputs, outputs}, db)
                .ok());
    REQUIRE(cpu::LinearBackwardInput({dy.data(), rows, outputs}, {w.data(), inputs, outputs}, 0.0F,
                                     {dx.data(), rows, inputs})
                .ok());
    std::vector<float> relu_y(rows * outputs, kNan);
    std::vector<float> relu_dx(rows * inputs, kNan);
    std::vector<float> twice_dx = dx;
    REQUIRE(cpu::LinearForward({x.data(), rows, inputs}, {w.data(), inputs, outputs}, b,
                               /*relu=*/true, {relu_y.data(), rows, outputs})
                .ok());
    REQUIRE(cpu::LinearBackwardRelu({dy.data(), rows, outputs}, {w.data(), inputs, outputs},
                                    {x.data(), rows, inputs}, {relu_dx.data(), rows, inputs})
                .ok());
    REQUIRE(cpu::LinearBackwardInput({dy.data(), rows, outputs}, {w.data(), inputs, outputs}, 1.0F,
                                     {twice_dx.data(), rows, inputs})
                .ok());
    cpu::SetComputeThreads(1);
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(relu_y[i] == std::max(y[i], 0.0F));
    for (size_t i = 0; i < dx.size(); ++i) REQUIRE(relu_dx[i] == (x[i] > 0.0F ? dx[i] : 0.0F));

    std::vector<double> y64(rows * outputs);
    std::vector<double> dx64(rows * inputs);
    std::vector<double> dw64(inputs * outputs);
    std::vector<double> db64(outputs);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t o = 0; o < outputs; ++o) {
        const double g = dy[r * outputs + o];
        y64[r * outputs + o] += b[o];
        db64[o] += g;
        for (size_t i = 0; i < inputs; ++i) {
          y64[r * outputs + o] += double{x[r * inputs + i]} * w[i * outputs + o];
          dw64[i * outputs + o] += x[r * inputs + i] * g;
          dx64[r * inputs + i] += w[i * outputs + o] * g;
        }
      }
    }
    const auto largest_error = [](const std::vector<float>& a, const std::vector<double>& e) {
      double worst = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        const double error = std::abs(a[i] - e[i]);
        if (!(error <= worst)) worst = error;
      }
      return worst;
    };
    CHECK(largest_error(y, y64) < 1e-4);
    CHECK(largest_error(dx, dx64) < 1e-4);
    for (double& value : dx64) value *= 2;
    CHECK(largest_error(twice_dx, dx64) < 2e-4);
    CHECK(largest_error(dw, dw64) < 1e-4);
    CHECK(largest_error(db, db64) < 1e-4);
  }
}

TEST_CASE("the loss stays finite for logits of any size and equals -log p otherwise") {
  const std::vector<float> logits{0.0F, 1.5F, -2.0F, 1000.0F, -1000.0F, 1000.0F};
  const std::vector<float> labels{1, 0, 1, 1, 0, 0};
  std::vector<float> probabilities(6);
  std::vector<float> gradient(6);
  const double loss =
      cpu::Loss(std::vector<TaskConfig>(1), logits, labels, probabilities, 6, gradient);
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  const double expected =
      -(std::log(0.5) + std::log(1 - sigmoid(1.5)) + std::log(sigmoid(-2.0))) + 1000.0;
  CHECK(loss == Approx(expected / 6).epsilon(1e-12));
  CHECK(probabilities[1] == Approx(sigmoid(1.5)));
  CHECK(probabilities[3] == 1.0F);
  CHECK(probabilities[4] == 0.0F);
  CHECK(gradient[0] == Approx(-0.5 / 6));
  CHECK(gradient[2] == Approx((sigmoid(-2.0) - 1) / 6));
  CHECK(gradient[5] == Approx(1.0 / 6));

  std::vector<float> predictions = logits;
  ToPredictions(std::vector<TaskConfig>(1), /*kept_negatives=*/1, {}, predictions);
  CHECK(predictions == probabilities);
}

TEST_CASE("tasks add up their weighted losses, each with its own gradient") {
  std::vector<TaskConfig> tasks(2);
  tasks[0].weight = 2.0F;
  tasks[1].weight = 0.5F;
  tasks[1].loss.positive_weight = 3.0F;
  const std::vector<float> logits{0, 0, 0, 0};  // Two samples.
  const std::vector<float> labels{1, 1, 0, 0};
  std::vector<float> probabilities(4);
  std::vector<float> gradient(4);
  const double loss = cpu::Loss(tasks, logits, labels, probabilities, 2, gradient);
  CHECK(loss == Approx((2 + 0.5 * 3 + 2 + 0.5) * std::log(2.0) / 2));
  CHECK(gradient == std::vector<float>{-0.5F, -0.375F, 0.5F, 0.125F});
  CHECK(probabilities == std::vector<float>(4, 0.5F));
}

TEST_CASE("a task with an unknown label has neither loss nor gradient") {
  std::vector<TaskConfig> tasks(2);
  tasks[0].weight = 2.0F;
  tasks[1].weight = 0.5F;
  const std::vector<float> logits{0, 0, 0, 0};  // Two samples.
  const std::vector<float> labels{1, kNan, kNan, 0};
  std::vector<float> probabilities(4);
  std::vector<float> gradient(4);
  using Kind = LossConfig::Kind;
  CHECK(cpu::Loss(tasks, logits, labels, probabilities, 2, gradient) ==
        Approx((2 + 0.5) * std::log(2.0) / 2));
  CHECK(gradient == std::vector<float>{-0.5F, 0.0F, 0.0F, 0.125F});
  for (const Kind kind : {Kind::kFocal, Kind::kSquaredError, Kind::kPoisson}) {
    tasks[1].loss.kind = kind;
    const double loss = cpu::Loss(tasks, logits, labels, probabilities, 2, gradient);
    CHECK(std::isfinite(loss));
    CHECK(gradient[1] == 0);
    CHECK(std::isfinite(gradient[3]));
  }
}

TEST_CASE("relu keeps NaN") {
  const std::vector<float> x{-1.0F, 0.0F, 2.0F, kNan};
  std::vector<float> y(4);
  cpu::ActivationForward<ReluFormula>(x, y);
  CHECK(y[0] == 0.0F);
  CHECK(y[1] == 0.0F);
  CHECK(y[2] == 2.0F);
  CHECK(std::isnan(y[3]));
}

TEST_CASE("sigmoid saturates without NaN") {
  const std::vector<float> x{-1000.0F, 0.0F, 1000.0F};
  std::vector<float> y(3);
  std::vector<float> dx(3);
  cpu::ActivationForward<SigmoidFormula>(x, y);
  CHECK(y == std::vector<float>{0.0F, 0.5F, 1.0F});
  cpu::ActivationBackward<SigmoidFormula>(y, std::vector<float>{1, 1, 1}, dx);
  CHECK(dx == std::vector<float>{0.0F, 0.25F, 0.0F});
}

TEST_CASE("gelu and its gradient are the tanh form's in f64, at the ends too") {
  const auto gelu = [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  std::vector<float> x{-1000.0F, -30.0F, 0.0F, 30.0F, 1000.0F};
  for (float value = -6.0F; value < 6.0F; value += 0.0625F) x.push_back(value);
  std::vector<float> y(x.size(), kNan);
  std::vector<float> dx(x.size(), kNan);
  cpu::ActivationForward<GeluFormula>(x, y);
  cpu::ActivationBackward<GeluFormula>(x, std::vector<float>(x.size(), 2.0F), dx);
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const double slope = (gelu(x[i] + kStep) - gelu(x[i] - kStep)) / (2 * kStep);
    CHECK(std::abs(y[i] - gelu(x[i])) <= 1e-6 * std::max(1.0, std::abs(double{x[i]})));
    CHECK(dx[i] == Approx(2 * slope).margin(1e-6).epsilon(1e-5));
  }
  cpu::ActivationForward<GeluFormula>(std::vector<float>{kNan}, std::span(y).first(1));
  CHECK(std::isnan(y[0]));
}

TEST_CASE("a gradient that is not finite, or from 2^48 on, is found at any position") {
  const float limit = std::ldexp(1.0F, 48);
  const float below = std::nextafter(limit, 0.0F);
  const std::vector<float> extremes{below, -below, std::numeric_limits<float>::denorm_min(), -0.0F};
  CHECK(cpu::AllUsable(extremes));
  CHECK(cpu::AllUsable({}));
  for (size_t place = 0; place < 37; ++place) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity, limit, -limit}) {
      std::vector<float> values(37, 1.0F);
      values[place] = bad;
      CHECK_FALSE(cpu::AllUsable(values));
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
