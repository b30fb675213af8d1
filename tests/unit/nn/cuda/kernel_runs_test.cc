#include "tests/unit/nn/cuda/kernel_runs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <tuple>
#include <utility>

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
      {"silu", Name::kSilu, 1, [](const double* x) { return x[0] * Logistic(x[0]); }, {}},
      {"silu back",
       Name::kSiluBackward,
       2,
       [](const double* x) {
         const double p = Logistic(x[0]);
         return x[1] * (p + x[0] * p * (1 - p));
       },
       {}},
      {"tanh", Name::kTanh, 1, [](const double* x) { return std::tanh(x[0]); }, {}},
      {"tanh back",
       Name::kTanhBackward,
       2,
       [](const double* x) { return x[1] * (1 - x[0] * x[0]); },
       {}},
      {"gate", Name::kGate, 1, [](const double* x) { return 2 * Logistic(x[0]); }, {}},
      {"gate back",
       Name::kGateBackward,
       2,
       [](const double* x) { return x[1] * x[0] * (1 - x[0] / 2); },
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

// Calls check(precision, rows, columns, path) for shapes of packs, without packs and misaligned.
void ForShapes(const std::function<void(ComputePrecision, size_t, size_t, ProductPath)>& check) {
  for (const ComputePrecision precision : kPrecisions) {
    for (const auto& [rows, columns, path] :
         {std::tuple<size_t, size_t, ProductPath>{1, 1, ProductPath::kFused},
          {65, 37, ProductPath::kFused},
          {130, 48, ProductPath::kFused},
          {9, 48, ProductPath::kMisaligned}}) {
      CAPTURE(static_cast<int>(precision), rows, columns, static_cast<int>(path));
      check(precision, rows, columns, path);
    }
  }
}

TEST_CASE("prelu and layer_norm are their definitions in f64") {
  Random random(16);
  ForShapes([&](ComputePrecision precision, size_t rows, size_t columns, ProductPath path) {
    const Values x = Random16(rows * columns, random, precision);
    const Values dy = Random16(rows * columns, random, precision);
    const Values scale = NormalValues(columns, random);
    const Values shift = NormalValues(columns, random);
    const auto run = [&](Name name, std::vector<Values> in) {
      return RunKernel({.name = name,
                        .precision = precision,
                        .rows = rows,
                        .columns = columns,
                        .path = path,
                        .in = std::move(in)});
    };
    CheckOutput(run(Name::kPrelu, {x, scale}), 0, precision, 2, [&](size_t i) {
      const double value = x[i] < 0 ? double{scale[i % columns]} * x[i] : x[i];
      return Expected{value, std::abs(value)};
    });
    CheckOutput(run(Name::kPreluBackward, {x, dy, scale}), 0, precision, 2, [&](size_t i) {
      const double value = x[i] > 0 ? dy[i] : double{scale[i % columns]} * dy[i];
      return Expected{value, std::abs(value)};
    });
    // Mean and inverse deviation of each row, then means of dy * scale and of that times z.
    const auto width = static_cast<double>(columns);
    std::vector<double> z(x.size());
    std::vector<double> inverse(rows);
    std::vector<double> offset(rows);
    std::vector<double> slope(rows);
    for (size_t row = 0; row < rows; ++row) {
      double mean = 0;
      double variance = 0;
      for (size_t c = 0; c < columns; ++c) mean += x[row * columns + c] / width;
      for (size_t c = 0; c < columns; ++c) {
        variance += std::pow(x[row * columns + c] - mean, 2) / width;
      }
      inverse[row] = 1 / std::sqrt(variance + 1e-5F);
      for (size_t c = 0; c < columns; ++c) {
        const size_t i = row * columns + c;
        z[i] = (x[i] - mean) * inverse[row];
        offset[row] += double{dy[i]} * scale[c] / width;
        slope[row] += double{dy[i]} * scale[c] * z[i] / width;
      }
    }
    CheckOutput(run(Name::kLayerNorm, {x, scale, shift}), 0, precision, 40, [&](size_t i) {
      return Expected{z[i] * scale[i % columns] + shift[i % columns], 8};
    });
    const KernelResult backward = run(Name::kLayerNormBackward, {x, dy, scale});
    CheckOutput(backward, 0, precision, 40, [&](size_t i) {
      const size_t row = i / columns;
      const double dx = double{dy[i]} * scale[i % columns] - offset[row] - z[i] * slope[row];
      return Expected{inverse[row] * dx, 16 * inverse[row]};
    });
    CheckOutput(backward, 1, ComputePrecision::kF32, 80, [&](size_t c) {
      Expected sum{};
      for (size_t i = c; i < x.size(); i += columns) {
        sum.value += dy[i] * z[i];
        sum.size += 1 + std::abs(dy[i] * z[i]);
      }
      return sum;
    });
  });
}

TEST_CASE("products, joint probabilities and mixtures of pieces are their definitions in f64") {
  constexpr size_t kPieces = 4;
  Random random(17);
  ForShapes([&](ComputePrecision precision, size_t rows, size_t dim, ProductPath path) {
    const size_t columns = kPieces * dim;
    const size_t mixed = kPieces + columns;
    const Values x = Random16(rows * columns, random, precision);
    const Values mix = Random16(rows * mixed, random, precision);
    const Values dy = Random16(rows * dim, random, precision);
    const auto run = [&](Name name, size_t width, std::vector<Values> in) {
      return RunKernel({.name = name,
                        .precision = precision,
                        .rows = rows,
                        .columns = width,
                        .depth = dim,
                        .path = path,
                        .in = std::move(in)});
    };
    // The product of function(x) over the pieces of a column, but for one of them.
    const auto product = [&](size_t row, size_t d, size_t but, const auto& function) {
      double value = 1;
      for (size_t k = 0; k < kPieces; ++k) {
        if (k != but) value *= function(double{x[row * columns + k * dim + d]});
      }
      return value;
    };
    const auto itself = [](double z) { return z; };
    const auto size = [](double z) { return 1 + std::abs(z); };
    CheckOutput(run(Name::kPieces, columns, {x}), 0, precision, 8, [&](size_t i) {
      const double value = product(i / dim, i % dim, kPieces, itself);
      return Expected{value, std::abs(value)};
    });
    // The products before a piece are rounded once more.
    CheckOutput(run(Name::kPiecesBackward, columns, {x, dy}), 0, precision,
                8 + UnitOf(precision) * 0x1p24, [&](size_t i) {
                  const size_t row = i / columns;
                  const size_t k = i % columns / dim;
                  const double gradient = dy[row * dim + i % dim];
                  return Expected{gradient * product(row, i % dim, k, itself),
                                  size(gradient) * product(row, i % dim, k, size)};
                });
    const auto joint = [&](size_t row, size_t d) { return product(row, d, kPieces, Logistic); };
    CheckOutput(run(Name::kJoint, columns, {x}), 0, precision, 4, [&](size_t i) {
      const double p = joint(i / dim, i % dim);
      return Expected{std::log(p / (1 - p)), std::abs(std::log(p / (1 - p)))};
    });
    CheckOutput(run(Name::kJointBackward, columns, {x, dy}), 0, precision, 4, [&](size_t i) {
      const size_t row = i / columns;
      const double p = joint(row, i % dim);
      const double value = dy[row * dim + i % dim] * (1 - Logistic(x[i])) / (1 - p);
      return Expected{value, std::abs(value)};
    });
    const auto at = [&](size_t row, size_t c) { return double{mix[row * mixed + c]}; };
    CheckOutput(run(Name::kMix, mixed, {mix}), 0, precision, 8, [&](size_t i) {
      Expected sum{};
      for (size_t k = 0; k < kPieces; ++k) {
        const double term = at(i / dim, k) * at(i / dim, kPieces + k * dim + i % dim);
        sum.value += term;
        sum.size += std::abs(term);
      }
      return sum;
    });
    CheckOutput(run(Name::kMixBackward, mixed, {mix, dy}), 0, precision, 64, [&](size_t i) {
      const size_t row = i / mixed;
      const size_t c = i % mixed;
      if (c >= kPieces) {
        const double value =
            at(row, (c - kPieces) / dim) * double{dy[row * dim + (c - kPieces) % dim]};
        return Expected{value, std::abs(value)};
      }
      Expected sum{};
      for (size_t d = 0; d < dim; ++d) {
        const double term = at(row, kPieces + c * dim + d) * double{dy[row * dim + d]};
        sum.value += term;
        sum.size += std::abs(term);
      }
      return sum;
    });
  });
}

TEST_CASE("a softmax is its definition in f64") {
  Random random(18);
  ForShapes([&](ComputePrecision precision, size_t rows, size_t columns, ProductPath path) {
    const Values x = Random16(rows * columns, random, precision);
    const Values dy = Random16(rows * columns, random, precision);
    KernelRun run{.name = Name::kSoftmax,
                  .precision = precision,
                  .rows = rows,
                  .columns = columns,
                  .path = path,
                  .in = {x}};
    const KernelResult forward = RunKernel(run);
    const auto terms = static_cast<double>(columns + 32);
    CheckOutput(forward, 0, precision, terms, [&](size_t i) {
      double sum = 0;
      for (size_t c = 0; c < columns; ++c) sum += std::exp(x[i / columns * columns + c]);
      return Expected{std::exp(x[i]) / sum, std::exp(x[i]) / sum};
    });
    const Values& y = forward.out.at(0);
    run.name = Name::kSoftmaxBackward;
    run.in = {y, dy};
    CheckOutput(RunKernel(run), 0, precision, terms, [&](size_t i) {
      double mean = 0;
      double size = std::abs(dy[i]);
      for (size_t c = 0; c < columns; ++c) {
        const size_t k = i / columns * columns + c;
        mean += double{y[k]} * dy[k];
        size += std::abs(double{y[k]} * dy[k]);
      }
      return Expected{y[i] * (dy[i] - mean), y[i] * size};
    });
  });
}

TEST_CASE("l2_norm is its definition in f64") {
  Random random(21);
  ForShapes([&](ComputePrecision precision, size_t rows, size_t columns, ProductPath path) {
    Values x = Random16(rows * columns, random, precision);
    std::fill_n(x.begin(), columns, 0.0F);  // The first row has no direction.
    const Values dy = Random16(rows * columns, random, precision);
    const auto product = [&](const Values& a, const Values& b, size_t i) {
      Expected sum{};
      for (size_t c = 0; c < columns; ++c) {
        const double term = double{a[i / columns * columns + c]} * b[i / columns * columns + c];
        sum.value += term;
        sum.size += std::abs(term);
      }
      return sum;
    };
    KernelRun run{.name = Name::kL2Norm,
                  .precision = precision,
                  .rows = rows,
                  .columns = columns,
                  .path = path,
                  .in = {x}};
    CheckOutput(RunKernel(run), 0, precision, 4, [&](size_t i) {
      if (i < columns) return Expected{};
      const double y = x[i] / std::sqrt(product(x, x, i).value);
      return Expected{y, std::abs(y)};
    });
    run.name = Name::kL2NormBackward;
    run.in = {x, dy};
    CheckOutput(RunKernel(run), 0, precision, 4, [&](size_t i) {
      if (i < columns) return Expected{};
      const double squares = product(x, x, i).value;
      const Expected slope = product(x, dy, i);
      const double norm = std::sqrt(squares);
      return Expected{(dy[i] - x[i] * slope.value / squares) / norm,
                      (std::abs(dy[i]) + std::abs(x[i]) * slope.size / squares) / norm};
    });
  });
}

TEST_CASE("heads of self_attention are their definitions in f64") {
  Random random(19);
  for (const ComputePrecision precision : kPrecisions) {
    for (const auto& [samples, places, heads, dim, path] :
         {std::tuple<size_t, size_t, size_t, size_t, ProductPath>{1, 1, 1, 1, ProductPath::kFused},
          {5, 3, 2, 3, ProductPath::kFused},
          {9, 7, 3, 16, ProductPath::kFused},
          {2, 5, 2, 16, ProductPath::kMisaligned}}) {
      CAPTURE(static_cast<int>(precision), samples, places, heads, dim, static_cast<int>(path));
      const size_t rows = samples * places;
      const size_t columns = heads * dim;
      const size_t weight_columns = heads * places;
      const Values a = Random16(rows * columns, random, precision);
      const Values b = Random16(rows * columns, random, precision);
      const Values weights = NormalValues(rows * weight_columns, random);
      // Sample s has s % (places + 1) rows.
      const size_t input_columns = places * (columns + 1);
      Values input(samples * input_columns, 2.0F);
      const auto has = [&](size_t row) { return row % places < row / places % (places + 1); };
      for (size_t row = 0; row < rows; ++row) {
        input[row / places * input_columns + places * columns + row % places] =
            has(row) ? 1.0F : 0.0F;
      }
      KernelRun run{.name = Name::kRowProducts,
                    .precision = precision,
                    .rows = rows,
                    .columns = columns,
                    .depth = places,
                    .heads = heads,
                    .path = path,
                    .in = {a, b, input}};
      const double factor = 1 / std::sqrt(static_cast<double>(dim));
      CheckOutput(RunKernel(run), 0, ComputePrecision::kF32, 20, [&](size_t i) {
        const size_t row = i / weight_columns;
        const size_t head = i % weight_columns / run.depth;
        const size_t other = row / run.depth * run.depth + i % run.depth;
        if (!has(row)) return Expected{0, 0};
        if (!has(other) || other > row) return Expected{-7, 0};
        Expected sum{};
        for (size_t c = head * dim; c < (head + 1) * dim; ++c) {
          const double term = factor * a[row * columns + c] * b[other * columns + c];
          sum.value += term;
          sum.size += std::abs(term);
        }
        return sum;
      });
      run.name = Name::kRowSums;
      run.in = {a, weights};
      const KernelResult sums = RunKernel(run);
      for (const bool transposed : {false, true}) {
        CheckOutput(sums, transposed ? 1 : 0, precision, 20, [&](size_t i) {
          const size_t row = i / columns;
          const size_t place = row % run.depth;
          const size_t head = i % columns / dim * run.depth;
          Expected sum{};
          for (size_t j = 0; j < run.depth; ++j) {
            const size_t other = row - place + j;
            const double weight = transposed ? weights[other * weight_columns + head + place]
                                             : weights[row * weight_columns + head + j];
            const double term = factor * weight * a[other * columns + i % columns];
            sum.value += term;
            sum.size += std::abs(term);
          }
          return sum;
        });
      }
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
