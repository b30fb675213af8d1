#include <bit>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"
#include "nn/dense_network.h"
#include "tests/support/skip.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

// The nearest bf16 by definition: 8 bits of mantissa.
double Nearest(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

constexpr const char* kNoBf16 = "oneDNN has no products of bf16 for this processor";

cpu::Operand Of(const std::vector<float>& values, size_t rows, size_t columns, bool transposed) {
  return {{values.data(), transposed ? columns : rows, transposed ? rows : columns}, transposed};
}

float At(const cpu::Operand& operand, size_t row, size_t column) {
  return operand.transposed ? operand.matrix(column, row) : operand.matrix(row, column);
}

TEST_CASE("bf16 products are products of rounded operands, summed in f32") {
  if (!BackendHas(ComputePrecision::kBf16)) SIMURGH_SKIP(kNoBf16);
  struct Shape {
    size_t rows, depth, columns;
  };
  for (const auto [rows, depth, columns] :
       {Shape{1, 1, 1}, Shape{3, 70, 5}, Shape{200, 33, 129}, Shape{64, 130, 300}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const float beta : {0.0F, 1.0F}) {
          CAPTURE(rows, depth, columns, a_transposed, b_transposed, beta);
          Random random(rows + depth);
          const std::vector<float> a_values = NormalValues(rows * depth, random);
          const std::vector<float> b_values = NormalValues(depth * columns, random);
          const cpu::Operand a = Of(a_values, rows, depth, a_transposed);
          const cpu::Operand b = Of(b_values, depth, columns, b_transposed);
          std::vector<float> c(rows * columns, beta == 0.0F ? NAN : 0.5F);
          cpu::SetComputeThreads(2);
          REQUIRE(cpu::MultiplyBf16(a, b, depth, beta, {c.data(), rows, columns}).ok());
          cpu::SetComputeThreads(1);
          double worst = 0;
          for (size_t row = 0; row < rows; ++row) {
            for (size_t column = 0; column < columns; ++column) {
              double expected = double{beta} * 0.5;
              for (size_t k = 0; k < depth; ++k) {
                expected += Nearest(At(a, row, k)) * Nearest(At(b, k, column));
              }
              const double error = std::abs(c[row * columns + column] - expected);
              worst = std::isnan(error) ? error : std::max(worst, error);
            }
          }
          CHECK(worst < 1e-4);
        }
      }
    }
  }
}

TEST_CASE("values that are not finite stay so in bf16") {
  if (!BackendHas(ComputePrecision::kBf16)) SIMURGH_SKIP(kNoBf16);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {NAN, std::bit_cast<float>(0x7f800001U), kInfinity, -kInfinity}) {
    const float one = 1.0F;
    float c = 0;
    REQUIRE(cpu::MultiplyBf16({{&bad, 1, 1}}, {{&one, 1, 1}}, 1, 0.0F, {&c, 1, 1}).ok());
    CHECK(std::isnan(c) == std::isnan(bad));
    CHECK_FALSE(std::isfinite(c));
  }
}

TEST_CASE("a network in bf16 is near one in f32, and learns") {
  if (!BackendHas(ComputePrecision::kBf16)) SIMURGH_SKIP(kNoBf16);
  const ModelConfig model = Chain({Linear(16), Relu(), Linear(8), Relu(), Linear(1)});
  DenseNetworkOptions options{.inputs = TestInputs(3), .threads = 2};
  const auto exact = CreateCpuNetwork(model, options);
  options.precision = ComputePrecision::kBf16;
  const auto rounded = CreateCpuNetwork(model, options);
  REQUIRE((exact.ok() && rounded.ok()));
  Random random(4);
  const TestBatch batch(64, 3, kTestFeatures * kTestDim, random);
  std::vector<float> probabilities(64);
  std::vector<float> gradient(batch.embedding_values.size());
  const auto step = [&](DenseNetwork& network) {
    const auto result =
        ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                         {gradient.data(), 64, batch.embedding_width}, probabilities);
    REQUIRE(result.ok());
    REQUIRE(network.ApplyGradients(0.3F).ok());
    return result->loss;
  };
  const double first_exact = step(**exact);
  const double first_rounded = step(**rounded);
  CHECK(first_rounded == Approx(first_exact).epsilon(1e-2));
  CHECK(first_rounded != first_exact);
  double last = first_rounded;
  for (int i = 0; i < 100; ++i) last = step(**rounded);
  CHECK(last < 0.9 * first_rounded);
  cpu::SetProductPrecision(cpu::ProductPrecision::kF32);  // Restores the default for later tests.
}

}  // namespace
}  // namespace simurgh::testing
