#include <algorithm>
#include <cmath>
#include <numbers>

#include <catch2/catch.hpp>

#include "nn/cuda/float16.h"
#include "tests/unit/nn/cuda/kernel_runs.h"
#include "tests/unit/nn/test_models.h"

// Matrix products with epilogues compared with their definition in f64, on odd shapes.
namespace simurgh::testing {
namespace {

using Name = KernelName;
using Values = std::vector<float>;

struct Shape {
  size_t rows, columns, depth;
};

constexpr Shape kShapes[] = {{1, 1, 1}, {33, 65, 130}, {96, 64, 32}, {129, 7, 19}, {64, 128, 429}};
constexpr ComputePrecision kPrecisions[] = {ComputePrecision::kF32, ComputePrecision::kBf16,
                                            ComputePrecision::kF16};

Values Multiples(size_t count, Random& random) {
  // Eighths up to 2: exact in every precision, and as products and sums in f32, too.
  Values values(count);
  for (float& value : values) value = static_cast<float>(random.Below(33)) / 8 - 2;
  return values;
}

double Gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) { return (Gelu(x + 1e-6) - Gelu(x - 1e-6)) / 2e-6; }

// Product of a (rows, depth) and b (depth, columns); each may be stored transposed.
std::vector<double> Product(const KernelRun& run, const Values& a) {
  std::vector<double> result(run.rows * run.columns);
  for (size_t row = 0; row < run.rows; ++row) {
    for (size_t k = 0; k < run.depth; ++k) {
      const double x = run.a_transposed ? a[k * run.rows + row] : a[row * run.depth + k];
      for (size_t column = 0; column < run.columns; ++column) {
        const double y = run.b_transposed ? run.in[1][column * run.depth + k]
                                          : run.in[1][k * run.columns + column];
        result[row * run.columns + column] += x * y;
      }
    }
  }
  return result;
}

double UnitOf(ComputePrecision precision) {
  return precision == ComputePrecision::kBf16  ? 0x1p-8
         : precision == ComputePrecision::kF16 ? 0x1p-11
                                               : 1e-6;
}

// Sums in f32 are exact, so that what is left is gelu in f32, and roundings to `precision`: of the
// result, and where an epilogue was not fused, of the product before it.
void CheckNearly(const Values& actual, const std::vector<double>& expected,
                 ComputePrecision precision, const std::vector<double>& products = {}) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    // The slope of gelu is at most 1.13; rounding the sum with the bias adds an error.
    const double before = products.empty() ? 0 : 2.5 * std::abs(products[i]) + 2.5;
    const double limit = UnitOf(precision) * 1.01 * (std::abs(expected[i]) + before) + 2e-5;
    if (!(std::abs(double{actual[i]} - expected[i]) <= limit)) {
      CAPTURE(i, actual[i], expected[i], limit);
      FAIL("differs");
    }
  }
}

// Calls check(run) for every shape and precision, with a and b given.
template <typename Check>
void ForProducts(bool a_transposed, bool b_transposed, const Check& check) {
  Random random(21);
  for (const ComputePrecision precision : kPrecisions) {
    for (const Shape& shape : kShapes) {
      CAPTURE(static_cast<int>(precision), shape.rows, shape.columns, shape.depth);
      for (const ProductPath path :
           {ProductPath::kFused, ProductPath::kPlain, ProductPath::kWithoutMask,
            ProductPath::kKernel, ProductPath::kMisaligned}) {
        CAPTURE(static_cast<int>(path));
        check(KernelRun{.name = Name::kProduct,
                        .precision = precision,
                        .rows = shape.rows,
                        .columns = shape.columns,
                        .depth = shape.depth,
                        .a_transposed = a_transposed,
                        .b_transposed = b_transposed,
                        .path = path,
                        .in = {Multiples(shape.rows * shape.depth, random),
                               Multiples(shape.depth * shape.columns, random)}},
              random);
      }
    }
  }
}

KernelResult RunChecked(const KernelRun& run) {
  KernelResult result = RunKernel(run);
  CHECK(result.kept_gaps);
  return result;
}

TEST_CASE("products equal their definition, with transposition and addition") {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      CAPTURE(a_transposed, b_transposed);
      ForProducts(a_transposed, b_transposed, [](KernelRun run, Random& random) {
        std::vector<double> expected = Product(run, run.in[0]);
        CheckNearly(RunChecked(run).out.at(0), expected, run.precision);
        run.name = Name::kProductAdded;
        run.in.push_back(Multiples(expected.size(), random));
        for (size_t i = 0; i < expected.size(); ++i) expected[i] += run.in[2][i];
        CheckNearly(RunChecked(run).out.at(0), expected, run.precision);
      });
    }
  }
}

TEST_CASE("products add a bias, and apply relu's mask backward") {
  ForProducts(false, false, [](KernelRun run, Random& random) {
    run.in.push_back(Multiples(run.columns, random));
    const std::vector<double> products = Product(run, run.in[0]);
    std::vector<double> sums = products;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += run.in[2][i % run.columns];
    run.name = Name::kProductBias;
    CheckNearly(RunChecked(run).out.at(0), sums, run.precision, products);
    std::vector<double> expected = sums;
    for (double& value : expected) value = std::max(value, 0.0);
    run.name = Name::kProductRelu;
    CheckNearly(RunChecked(run).out.at(0), expected, run.precision, products);
    run.name = Name::kProductReluBackward;
    run.in.push_back(Multiples(run.rows * run.depth, random));
    expected = Product(run, run.in[3]);
    const Values actual = RunChecked(run).out.at(0);
    for (size_t i = 0; i < expected.size(); ++i) {
      // Near 0 rounding allows either result.
      const bool may_differ = run.precision != ComputePrecision::kF32 &&
                              std::abs(sums[i]) < 2 * UnitOf(run.precision) * std::abs(products[i]);
      if (may_differ ? actual[i] == 0.0F : !(sums[i] > 0)) expected[i] = 0;
    }
    CheckNearly(actual, expected, run.precision);
  });
}

TEST_CASE("products apply gelu and store its input, and apply its slope backward") {
  ForProducts(false, true, [](KernelRun run, Random& random) {
    // Small values, where gelu is curved.
    for (float& value : run.in[0]) value /= 16;
    run.in.push_back(Multiples(run.columns, random));
    const std::vector<double> products = Product(run, run.in[0]);
    std::vector<double> sums = products;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += run.in[2][i % run.columns];
    run.name = Name::kProductGelu;
    const KernelResult forward = RunChecked(run);
    std::vector<double> expected(sums.size());
    std::ranges::transform(sums, expected.begin(), Gelu);
    CheckNearly(forward.out.at(0), expected, run.precision, products);
    CheckNearly(forward.out.at(1), sums, run.precision, products);
    run.name = Name::kProductGeluBackward;
    run.in[2] = Multiples(run.rows * run.columns, random);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = products[i] * GeluSlope(run.in[2][i]);
    }
    CheckNearly(RunChecked(run).out.at(0), expected, run.precision, products);
  });
}

TEST_CASE("the product of a weight's gradient also computes the bias's, both in f32") {
  ForProducts(true, false, [](KernelRun run, Random&) {
    run.name = Name::kProductBiasGradient;
    const KernelResult result = RunChecked(run);
    CheckNearly(result.out.at(0), Product(run, run.in[0]), ComputePrecision::kF32);
    std::vector<double> sums(run.columns);
    for (size_t k = 0; k < run.depth; ++k) {
      for (size_t c = 0; c < run.columns; ++c) sums[c] += run.in[1][k * run.columns + c];
    }
    CheckNearly(result.out.at(1), sums, ComputePrecision::kF32);
  });
}

}  // namespace
}  // namespace simurgh::testing
