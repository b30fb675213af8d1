#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/cpu/batch_norm.h"
#include "nn/cpu/column_sums.h"
#include "nn/cpu/interaction.h"
#include "nn/cpu/loss.h"
#include "nn/cuda/batch_norm_kernels.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/interaction_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/map_kernels.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "tests/unit/nn/cuda/host_executor.h"
#include "tests/unit/nn/test_models.h"

// Kernel bodies on the host, compared with the CPU backend and with definitions.
namespace simurgh::testing {
namespace {

using cuda::Bfloat16;
using cuda::Matrix;

template <typename T>
Matrix<const T> In(const std::vector<T>& values, size_t rows, size_t columns) {
  return {values.data(), rows, columns, columns};
}
template <typename T>
Matrix<T> Out(std::vector<T>& values, size_t rows, size_t columns) {
  return {values.data(), rows, columns, columns};
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

TEST_CASE("bfloat16 is the nearest of 2^16 values, ties to even") {
  // Every bfloat16 converts to itself.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bfloat16 value{static_cast<uint16_t>(bits)};
    const float wide = cuda::ToFloat(value);
    Bfloat16 back{};
    cuda::Assign(back, wide);
    if (std::isnan(wide)) {
      CHECK(std::isnan(cuda::ToFloat(back)));
    } else if (back.bits != bits) {
      FAIL(bits);
    }
  }
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto x = static_cast<float>(random.Normal() * std::exp(20 * random.Normal()));
    Bfloat16 rounded{};
    cuda::Assign(rounded, x);
    const double error = std::abs(double{cuda::ToFloat(rounded)} - x);
    for (const int step : {-1, 1}) {
      const Bfloat16 neighbour{static_cast<uint16_t>(rounded.bits + step)};
      const double other = std::abs(double{cuda::ToFloat(neighbour)} - x);
      // Equally near: the even one.
      const bool nearest = error < other || (error == other && rounded.bits % 2 == 0);
      if (!nearest && !std::isnan(other)) FAIL(x);
    }
  }
  Bfloat16 large{};
  cuda::Assign(large, std::numeric_limits<float>::max());
  CHECK(std::isinf(cuda::ToFloat(large)));
}

TEST_CASE("pairs are numbered row by row of the lower triangle") {
  size_t pair = 0;
  for (size_t v = 1; v < 500; ++v) {
    for (size_t w = 0; w < v; ++w, ++pair) {
      if (cuda::LargerOfPair(pair) != v || pair - cuda::FirstPair(v) != w) FAIL(pair);
    }
  }
}

TEST_CASE("the loss and its gradient are the CPU backend's, bit for bit") {
  std::vector<float> logits{0.0F, -0.0F, 90.0F, -90.0F, 1e30F, -1e30F};
  logits.push_back(std::numeric_limits<float>::infinity());
  Random random(2);
  for (int i = 0; i < 1000; ++i) logits.push_back(static_cast<float>(4 * random.Normal()));
  const size_t rows = logits.size();
  std::vector<float> labels(rows);
  for (float& label : labels) label = static_cast<float>(random.Below(2));
  for (size_t r = 5; r < rows; r += 9) labels[r] = std::numeric_limits<float>::quiet_NaN();
  using Kind = LossConfig::Kind;
  for (const LossConfig config :
       {LossConfig{}, LossConfig{.positive_weight = 3.5F, .label_smoothing = 0.2F},
        LossConfig{.kind = Kind::kFocal},
        LossConfig{.kind = Kind::kFocal, .positive_weight = 0.5F, .gamma = 0.5F},
        LossConfig{.kind = Kind::kSquaredError, .positive_weight = 3.5F},
        LossConfig{.kind = Kind::kPoisson}}) {
    // Labels, then the samples' weights.
    std::vector<float> weighted = labels;
    for (size_t r = 0; r < rows; ++r) weighted.push_back(static_cast<float>(random.Below(4)) / 2);
    std::vector<float> expected_p(rows);
    std::vector<float> expected_g(rows);
    const TaskConfig task{.label = {}, .weight = 0.75F, .loss = config};
    cpu::Loss({&task, 1}, logits, weighted, expected_p, rows, expected_g);
    std::vector<float> p(rows, -1.0F);
    std::vector<float> g(rows, -1.0F);
    std::vector<double> losses(rows, -1.0);
    const cuda::LossFormulas formula{{FormulaOf(task)}};
    const cuda::LossRow<float> kernel{
        formula,  In(logits, rows, 1),       weighted.data(), weighted.data() + rows, losses.data(),
        p.data(), static_cast<double>(rows), nullptr,         Out(g, rows, 1)};
    for (size_t r = 0; r < rows; ++r) {
      kernel(r);
      CAPTURE(r, logits[r], labels[r]);
      if (!SameBits(p[r], expected_p[r])) FAIL("probability");
      const bool both_nan = std::isnan(g[r]) && std::isnan(expected_g[r]);
      if (!both_nan && !SameBits(g[r], expected_g[r])) FAIL("gradient");
    }
  }
}

TEST_CASE("a NaN logit gives a NaN loss") {
  const std::vector<float> logits{std::numeric_limits<float>::quiet_NaN()};
  const float label = 1.0F;
  float p = 0;
  std::vector<float> g(1);
  double loss = 0;
  cuda::LossRow<float>{{{FormulaOf(TaskConfig())}},
                       In(logits, 1, 1),
                       &label,
                       nullptr,
                       &loss,
                       &p,
                       1.0,
                       nullptr,
                       Out(g, 1, 1)}(0);
  CHECK(std::isnan(loss));
  CHECK(std::isnan(g[0]));
}

TEST_CASE("sums over columns, values and squares are right at every odd size") {
  HostExecutor executor({});
  Random random(3);
  for (const size_t rows : {1, 2, 63, 64, 65, 129, 1000, 2048, 2049, 5000}) {
    for (const size_t columns : {1, 3, 65}) {
      CAPTURE(rows, columns);
      const std::vector<float> values = NormalValues(rows * columns, random);
      std::vector<float> partial(cuda::SumBlocks(rows) * columns, NAN);
      std::vector<double> groups(cuda::SumGroups(rows) * columns, NAN);
      std::vector<double> sums(columns, NAN);
      std::vector<float> rounded(columns, NAN);
      cuda::SumColumns(executor, cuda::ValueTerm<float>{In(values, rows, columns)}, rows,
                       {Out(partial, cuda::SumBlocks(rows), columns),
                        Out(groups, cuda::SumGroups(rows), columns)},
                       {sums.data(), rounded.data()});
      for (size_t c = 0; c < columns; ++c) {
        double expected = 0;
        for (size_t r = 0; r < rows; ++r) expected += double{values[r * columns + c]};
        CHECK(sums[c] == Approx(expected).epsilon(1e-5).margin(1e-5));
        CHECK(rounded[c] == static_cast<float>(sums[c]));
      }
    }
  }
  for (const size_t count : {1, 2, 31, 32, 33, 1023, 1024, 1025, 16'384, 40'000}) {
    CAPTURE(count);
    const std::vector<float> values = NormalValues(count, random);
    double expected = 0;
    double squares = 0;
    for (const float value : values) {
      expected += double{value};
      squares += double{value} * double{value};
    }
    std::vector<double> terms(values.begin(), values.end());
    std::vector<double> scratch(count, NAN);
    CHECK(*cuda::SumValues(executor, terms.data(), count, scratch.data()) ==
          Approx(expected).epsilon(1e-12).margin(1e-9));
    std::vector<double> parts(cuda::kSquareParts, NAN);
    std::vector<double> next(cuda::kSquareParts, NAN);
    CHECK(*cuda::SumSquares(executor, values, parts.data(), next.data()) ==
          Approx(squares).epsilon(1e-12));
  }
}

TEST_CASE("batch norm's kernels agree with the CPU backend") {
  HostExecutor executor({});
  Random random(4);
  for (const size_t rows : {1, 5, 64, 200}) {
    for (const size_t columns : {1, 7, 70}) {
      CAPTURE(rows, columns);
      const std::vector<float> x = NormalValues(rows * columns, random);
      const std::vector<float> dy = NormalValues(rows * columns, random);
      const std::vector<float> scale = NormalValues(columns, random);
      const std::vector<float> shift = NormalValues(columns, random);
      std::vector<float> mean(columns), variance(columns), y(x.size());
      std::vector<float> scale_gradient(columns), shift_gradient(columns), dx(x.size());
      const float epsilon = 1e-3F;
      cpu::BatchNormForward({x.data(), rows, columns}, {scale, shift}, epsilon, mean, variance,
                            {y.data(), rows, columns});
      const Status done = cpu::BatchNormBackward(
          {x.data(), rows, columns}, {dy.data(), rows, columns}, scale, epsilon, {mean, variance},
          nullptr, scale_gradient, shift_gradient, {dx.data(), rows, columns});
      REQUIRE(done.ok());
      std::vector<float> inverse(columns, NAN);
      executor.ForEach(columns, cuda::InvertDeviation{variance.data(), epsilon, inverse.data()});
      const cuda::BatchNormParameters norm{scale.data(), shift.data(), mean.data(), inverse.data()};
      std::vector<float> own_y(x.size(), NAN);
      std::vector<float> own_dx(x.size(), NAN);
      std::vector<float> means = shift_gradient;
      std::vector<float> normalised_means = scale_gradient;
      for (size_t c = 0; c < columns; ++c) {
        means[c] /= static_cast<float>(rows);
        normalised_means[c] /= static_cast<float>(rows);
      }
      cuda::MapCells(executor, Out(own_y, rows, columns), cuda::BatchNormValue{norm},
                     In(x, rows, columns));
      cuda::MapCells(executor, Out(own_dx, rows, columns),
                     cuda::BatchNormGradient{norm, means.data(), normalised_means.data()},
                     In(x, rows, columns), In(dy, rows, columns));
      for (size_t i = 0; i < x.size(); ++i) {
        CHECK(own_y[i] == Approx(y[i]).epsilon(1e-5).margin(1e-5));
        CHECK(own_dx[i] == Approx(dx[i]).epsilon(1e-4).margin(1e-4));
      }
    }
  }
}

TEST_CASE("an optimizer's packs have the bits of single parameters, at any alignment") {
  constexpr size_t kCount = 75;
  // A matrix with padded rows, one at an odd parameter, parameters without a copy, and a vector.
  const std::vector<cuda::CopiedBlock> blocks = {
      {0, 0, 5, 8}, {25, 256, 8, 8}, {57, 0, 0, 0}, {60, 512, 15, 15}};
  const cuda::StepScalars scalars{.rate = 0.1F, .keep = 0.99F, .average_kept = 0.9F, .clip = 0.5F};
  Random random(7);
  const std::vector<float> gradients = NormalValues(kCount, random);
  const std::vector<float> start = NormalValues(5 * kCount, random);
  for (const size_t offset : {0, 1, 2}) {
    struct Result {
      std::vector<float> values;
      std::vector<std::byte> copies = std::vector<std::byte>(1024);
    };
    const auto run = [&](const auto& for_each) {
      Result result{start};
      result.values.resize(start.size() + 2);
      float* const values = result.values.data();
      const cuda::AdamStep<Bfloat16> step{
          {&scalars,
           0.01F,
           values,
           gradients.data(),
           values + kCount + offset,
           {blocks.data(), static_cast<uint32_t>(blocks.size()), result.copies.data()}},
          {0.9F, 0.99F, 1e-3F, values + 2 * kCount + offset, values + 3 * kCount + offset}};
      // The second moments are squares.
      for (size_t i = 0; i < kCount; ++i) {
        float& square = values[3 * kCount + offset + i];
        square = std::abs(square);
      }
      for_each(cuda::IfCounted{&scalars, step});
      return result;
    };
    const Result packs =
        run([&](const auto& step) { HostExecutor({}).ForEachCell(1, kCount, step); });
    const Result singles = run([&](const auto& step) {
      for (size_t i = 0; i < kCount; ++i) step.template Run<1>(0, i);
    });
    CHECK(packs.values != start);
    CHECK(std::memcmp(packs.values.data(), singles.values.data(),
                      packs.values.size() * sizeof(float)) == 0);
    CHECK(packs.copies == singles.copies);
    const auto* const copies = reinterpret_cast<const Bfloat16*>(packs.copies.data());
    Bfloat16 wanted{};
    cuda::Assign(wanted, packs.values[7]);
    CHECK(copies[8 + 2].bits == wanted.bits);
    cuda::Assign(wanted, packs.values[56]);
    CHECK(copies[128 + 31].bits == wanted.bits);
    CHECK(copies[128 + 32].bits == 0);
    cuda::Assign(wanted, packs.values[74]);
    CHECK(copies[256 + 14].bits == wanted.bits);
  }
}

TEST_CASE("gradients of embeddings are added, unscaled and checked in one kernel") {
  HostExecutor executor({});
  Random random(6);
  constexpr size_t kRows = 7;
  constexpr size_t kColumns = 13;
  std::vector<float> from = NormalValues(kRows * kColumns, random);
  std::vector<float> before = NormalValues(kRows * kColumns, random);
  const float inverse = 0.125F;
  // Returns whether a gradient is not finite.
  const auto run = [&](bool adds) {
    std::vector<float> to(from.size(), NAN);
    uint32_t flag = 0;
    executor.ForEachCell(kRows, kColumns,
                         cuda::FinishGradientCell<float>{
                             .from = In(from, kRows, kColumns),
                             .before = adds ? In(before, kRows, kColumns) : Matrix<const float>(),
                             .inverse_scale = &inverse,
                             .not_finite = &flag,
                             .to = Out(to, kRows, kColumns),
                             .encoded = {},
                             .code = {}});
    for (size_t i = 0; i < to.size(); ++i) {
      const float expected = (adds ? from[i] + before[i] : from[i]) * inverse;
      if (!SameBits(to[i], expected) && !std::isnan(expected)) FAIL(i);
    }
    return flag != 0;
  };
  CHECK_FALSE(run(false));
  CHECK_FALSE(run(true));
  before.back() = NAN;
  CHECK_FALSE(run(false));
  CHECK(run(true));
  from[5] = std::numeric_limits<float>::infinity();
  CHECK(run(false));
}

TEST_CASE("dot products and their gradients agree with the CPU backend") {
  HostExecutor executor({});
  Random random(5);
  for (const size_t vectors : {2, 3, 27}) {
    for (const size_t dim : {1, 5, 16}) {
      CAPTURE(vectors, dim);
      const size_t rows = 9;
      const size_t width = vectors * dim;
      const size_t pairs = vectors * (vectors - 1) / 2;
      const std::vector<float> x = NormalValues(rows * width, random);
      const std::vector<float> dy = NormalValues(rows * pairs, random);
      std::vector<float> y(rows * pairs), dx(x.size());
      std::vector<float> scratch(cpu::DotScratchSize(vectors, dim));
      cpu::DotForward({x.data(), rows, width}, dim, scratch, {y.data(), rows, pairs});
      cpu::DotBackward({x.data(), rows, width}, dim, {dy.data(), rows, pairs}, scratch,
                       {dx.data(), rows, width});
      std::vector<float> own_y(y.size(), NAN), own_dx(dx.size(), NAN);
      cuda::Dot(executor, In(x, rows, width), dim, Out(own_y, rows, pairs));
      cuda::DotBackward(executor, In(x, rows, width), dim, In(dy, rows, pairs),
                        Out(own_dx, rows, width));
      for (size_t i = 0; i < y.size(); ++i) CHECK(own_y[i] == Approx(y[i]).margin(2e-5));
      for (size_t i = 0; i < dx.size(); ++i) CHECK(own_dx[i] == Approx(dx[i]).margin(2e-5));
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
