#include "tests/unit/nn/cuda/kernel_runs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include <catch2/catch.hpp>

#include "nn/cuda/float16.h"
#include "tests/unit/nn/test_models.h"

// Single kernels and products compared with their definition in f64, on odd shapes, for every
// element type, with results that were NaN before.
namespace simurgh::testing {
namespace {

using Name = KernelName;
using Values = std::vector<float>;

constexpr ComputePrecision kPrecisions[] = {ComputePrecision::kF32, ComputePrecision::kBf16,
                                            ComputePrecision::kF16};

// Half the relative distance of neighbours.
double UnitOf(ComputePrecision precision) {
  return precision == ComputePrecision::kBf16  ? 0x1p-8
         : precision == ComputePrecision::kF16 ? 0x1p-11
                                               : 0x1p-24;
}

Values Random16(size_t count, Random& random, ComputePrecision precision) {
  Values values = NormalValues(count, random);
  for (float& value : values) {
    cuda::Bfloat16 bf16;
    cuda::Float16 f16;
    cuda::Assign(bf16, value);
    cuda::Assign(f16, value);
    if (precision == ComputePrecision::kBf16) value = cuda::ToFloat(bf16);
    if (precision == ComputePrecision::kF16) value = cuda::ToFloat(f16);
  }
  return values;
}

double Gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) { return (Gelu(x + 1e-6) - Gelu(x - 1e-6)) / 2e-6; }
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Expected {
  double value;
  double size;  // Sum of the terms' magnitudes, which bounds rounding errors.
};

// Output `index` of `result` is expected(i) for each i. terms: roundings of f32 on the way.
void CheckOutput(const KernelResult& result, size_t index, ComputePrecision precision, double terms,
                 const std::function<Expected(size_t)>& expected) {
  REQUIRE(index < result.out.size());
  CHECK(result.kept_gaps);
  const Values& actual = result.out[index];
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto [value, size] = expected(i);
    // f16 has a step of 2^-24 near 0.
    const double limit =
        UnitOf(precision) * std::abs(value) * 1.01 + 0x1p-24 * terms * size + 0x1p-25 + 1e-7 * size;
    if (!(std::abs(double{actual[i]} - value) <= limit)) {
      CAPTURE(index, i, actual[i], value, limit);
      FAIL("differs");
    }
  }
}

struct CellDefinition {
  const char* name;
  Name kernel;
  size_t inputs;
  // Functions of the inputs' cells; `second` gives the second result, if any.
  std::function<double(const double*)> first;
  std::function<double(const double*)> second;
};

std::vector<CellDefinition> CellDefinitions() {
  return {
      {"copy", Name::kCopy, 1, [](const double* x) { return x[0]; }, {}},
      {"add", Name::kAdd, 2, [](const double* x) { return x[0] + x[1]; }, {}},
      {"relu back",
       Name::kReluBackward,
       2,
       [](const double* x) { return x[0] > 0 ? x[1] : 0.0; },
       {}},
      {"gelu", Name::kGelu, 1, [](const double* x) { return Gelu(x[0]); }, {}},
      {"gelu back",
       Name::kGeluBackward,
       2,
       [](const double* x) { return x[1] * GeluSlope(x[0]); },
       {}},
      {"sigmoid", Name::kSigmoid, 1, [](const double* x) { return Logistic(x[0]); }, {}},
      {"sigmoid back",
       Name::kSigmoidBackward,
       2,
       [](const double* x) { return x[1] * x[0] * (1 - x[0]); },
       {}},
      {"cross", Name::kCross, 3, [](const double* x) { return x[0] * x[1] + x[2]; }, {}},
      {"cross back", Name::kCrossBackward, 3, [](const double* x) { return x[2] * x[0]; },
       [](const double* x) { return x[2] * x[1]; }},
  };
}

TEST_CASE("kernels of cells are their definitions in f64") {
  Random random(11);
  for (const ComputePrecision precision : kPrecisions) {
    for (const auto& [rows, columns, path] :
         {std::tuple<size_t, size_t, ProductPath>{1, 1, ProductPath::kFused},
          {3, 257, ProductPath::kFused},
          {517, 7, ProductPath::kFused},
          {67, 16, ProductPath::kFused},
          {3, 257, ProductPath::kMisaligned}}) {
      for (const CellDefinition& definition : CellDefinitions()) {
        CAPTURE(definition.name, static_cast<int>(precision), rows, columns,
                static_cast<int>(path));
        KernelRun run{.name = definition.kernel,
                      .precision = precision,
                      .rows = rows,
                      .columns = columns,
                      .path = path};
        for (size_t i = 0; i < definition.inputs; ++i) {
          run.in.push_back(Random16(rows * columns, random, precision));
        }
        const auto expected = [&](const auto& formula) {
          return [&](size_t i) {
            double x[3] = {};
            double size = 1;
            for (size_t k = 0; k < run.in.size(); ++k) {
              x[k] = run.in[k][i];
              size *= 1 + std::abs(x[k]);
            }
            return Expected{formula(x), size};
          };
        };
        const KernelResult result = RunKernel(run);
        CheckOutput(result, 0, precision, 8, expected(definition.first));
        if (definition.second) CheckOutput(result, 1, precision, 8, expected(definition.second));
      }
    }
  }
}

TEST_CASE("biases are added before relu and gelu, and gelu's input is stored") {
  Random random(12);
  constexpr size_t kRows = 37;
  constexpr size_t kColumns = 131;
  for (const ComputePrecision precision : kPrecisions) {
    CAPTURE(static_cast<int>(precision));
    KernelRun run{
        .name = Name::kAddBiasRelu,
        .precision = precision,
        .rows = kRows,
        .columns = kColumns,
        .in = {Random16(kRows * kColumns, random, precision), NormalValues(kColumns, random)}};
    const auto sum = [&](size_t i) { return double{run.in[0][i]} + run.in[1][i % kColumns]; };
    CheckOutput(RunKernel(run), 0, precision, 4,
                [&](size_t i) { return Expected{std::max(sum(i), 0.0), 4}; });
    run.name = Name::kAddBiasGelu;
    const KernelResult result = RunKernel(run);
    CheckOutput(result, 0, precision, 16, [&](size_t i) { return Expected{Gelu(sum(i)), 6}; });
    CheckOutput(result, 1, precision, 4, [&](size_t i) { return Expected{sum(i), 4}; });
  }
}

TEST_CASE("interactions and sums are their definitions in f64") {
  Random random(13);
  for (const ComputePrecision precision : kPrecisions) {
    for (const auto& [rows, vectors, dim] :
         // The last one's row does not fit a block's memory in f32, and its backward pass in 16
         // bits.
         {std::tuple<size_t, size_t, size_t>{1, 2, 1},
          {65, 27, 5},
          {130, 3, 96},
          {9, 27, 128},
          {2, 100, 130}}) {
      CAPTURE(static_cast<int>(precision), rows, vectors, dim);
      const size_t columns = vectors * dim;
      const size_t pairs = vectors * (vectors - 1) / 2;
      const Values x = Random16(rows * columns, random, precision);
      const Values pair_gradient = Random16(rows * pairs, random, precision);
      const Values gradient = Random16(rows, random, precision);
      const auto at = [&](size_t row, size_t vector, size_t d) {
        return double{x[row * columns + vector * dim + d]};
      };
      const auto run = [&](Name name, std::vector<Values> in) {
        return RunKernel({.name = name,
                          .precision = precision,
                          .rows = rows,
                          .columns = columns,
                          .depth = dim,
                          .in = std::move(in)});
      };
      const auto terms = static_cast<double>(4 * columns);
      CheckOutput(run(Name::kDot, {x}), 0, precision, terms, [&, pairs = pairs](size_t i) {
        size_t v = 1;
        size_t w = i % pairs;
        for (; w >= v; ++v) w -= v;
        Expected sum{};
        for (size_t d = 0; d < dim; ++d) {
          sum.value += at(i / pairs, v, d) * at(i / pairs, w, d);
          sum.size += std::abs(at(i / pairs, v, d) * at(i / pairs, w, d));
        }
        return sum;
      });
      CheckOutput(run(Name::kDotBackward, {x, pair_gradient}), 0, precision, terms, [&](size_t i) {
        const size_t row = i / columns;
        const size_t v = i % columns / dim;
        Expected sum{};
        for (size_t w = 0; w < vectors; ++w) {
          if (w == v) continue;
          const size_t larger = std::max(v, w);
          const double dy = pair_gradient[row * pairs + larger * (larger - 1) / 2 + std::min(v, w)];
          sum.value += dy * at(row, w, i % dim);
          sum.size += std::abs(dy * at(row, w, i % dim));
        }
        return sum;
      });
      CheckOutput(run(Name::kFm, {x}), 0, precision, terms, [&](size_t row) {
        Expected sum{};
        for (size_t d = 0; d < dim; ++d) {
          for (size_t v = 0; v < vectors; ++v) {
            for (size_t w = 0; w < v; ++w) sum.value += at(row, v, d) * at(row, w, d);
            sum.size += at(row, v, d) * at(row, v, d) * static_cast<double>(vectors);
          }
        }
        return sum;
      });
      CheckOutput(run(Name::kFmBackward, {x, gradient}), 0, precision, terms, [&](size_t i) {
        const size_t row = i / columns;
        Expected sum{.value = 0, .size = 1};
        for (size_t v = 0; v < vectors; ++v) {
          if (v == i % columns / dim) continue;
          sum.value += gradient[row] * at(row, v, i % dim);
        }
        for (size_t v = 0; v < vectors; ++v) sum.size += 4 * std::abs(at(row, v, i % dim));
        return sum;
      });
      CheckOutput(run(Name::kSum, {x}), 0, precision, terms, [&](size_t row) {
        Expected sum{};
        for (size_t c = 0; c < columns; ++c) {
          sum.value += x[row * columns + c];
          sum.size += std::abs(x[row * columns + c]);
        }
        return sum;
      });
      CheckOutput(run(Name::kSumBackward, {gradient}), 0, precision, 0,
                  [&](size_t i) { return Expected{gradient[i / columns], 0}; });
      CheckOutput(run(Name::kColumnSums, {x}), 0, ComputePrecision::kF32, 80, [&](size_t column) {
        Expected sum{};
        for (size_t row = 0; row < rows; ++row) {
          sum.value += x[row * columns + column];
          sum.size += std::abs(x[row * columns + column]);
        }
        return sum;
      });
    }
  }
}

TEST_CASE("a head's logits and gradients are their definitions in f64") {
  Random random(15);
  for (const ComputePrecision precision : kPrecisions) {
    for (const auto& [rows, columns, path] :
         {std::tuple<size_t, size_t, ProductPath>{1, 1, ProductPath::kFused},
          {64, 256, ProductPath::kFused},
          {65, 7, ProductPath::kFused},
          {4'200, 301, ProductPath::kFused},
          {130, 301, ProductPath::kMisaligned}}) {
      CAPTURE(static_cast<int>(precision), rows, columns, static_cast<int>(path));
      Values x = Random16(rows * columns, random, precision);
      for (float& value : x) value = std::max(value, 0.0F);
      const Values dy = Random16(rows, random, precision);
      const Values weights = NormalValues(columns, random);
      const Values bias = NormalValues(1, random);
      KernelRun run{.name = Name::kHead,
                    .precision = precision,
                    .rows = rows,
                    .columns = columns,
                    .path = path,
                    .in = {x, weights, bias}};
      const auto terms = static_cast<double>(columns + 1);
      CheckOutput(RunKernel(run), 0, ComputePrecision::kF32, terms, [&](size_t row) {
        Expected sum{bias[0], std::abs(bias[0])};
        for (size_t c = 0; c < run.columns; ++c) {
          const double term = double{x[row * run.columns + c]} * weights[c];
          sum.value += term;
          sum.size += std::abs(term);
        }
        return sum;
      });
      run.name = Name::kHeadBackward;
      run.in = {x, dy, weights};
      const KernelResult backward = RunKernel(run);
      CheckOutput(backward, 0, precision, 2, [&](size_t i) {
        const double dx = x[i] > 0 ? double{dy[i / run.columns]} * weights[i % run.columns] : 0.0;
        return Expected{dx, std::abs(dx)};
      });
      CheckOutput(backward, 1, ComputePrecision::kF32, 80, [&](size_t c) {
        Expected sum{};
        for (size_t row = 0; row < rows; ++row) {
          const double term = double{dy[row]} * (c < columns ? x[row * columns + c] : 1.0F);
          sum.value += term;
          sum.size += std::abs(term);
        }
        return sum;
      });
    }
  }
}

TEST_CASE("unscaling divides exactly") {
  Random random(14);
  const Values x = NormalValues(1'037, random);
  const KernelResult result =
      RunKernel({.name = Name::kUnscale, .columns = x.size(), .in = {x, {65'536.0F}}});
  for (size_t i = 0; i < x.size(); ++i) {
    if (result.out.at(0).at(i) != x[i] / 65'536.0F) FAIL(i);
  }
  CHECK(result.kept_gaps);
}

}  // namespace
}  // namespace simurgh::testing
