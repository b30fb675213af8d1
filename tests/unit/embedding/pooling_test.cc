#include "embedding/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

constexpr size_t kDim = 21;  // A cache line of floats and a few more.

constexpr size_t kRowStride = kDim + 2;
constexpr size_t kSamples = 30;

// A feature of samples with 0 to 5 ids of 12, weighted, and rows for them.
struct Fixture {
  Fixture(const PoolingRule& pooling, uint64_t seed) : rule(pooling), random(seed) {
    BatchBuilder builder(1, 0);
    for (size_t s = 0; s < kSamples; ++s) {
      for (uint64_t i = random.Below(6) * rule.rows_per_id; i > 0; --i) {
        builder.AddId(0, random.Below(12), static_cast<float>(random.Normal()));
      }
      builder.EndSample();
    }
    batch = *builder.Build()->sparse;
    // Rows in reverse, with gaps: the plan may use any positions.
    const size_t ids = batch.ids.size();
    for (size_t i = 0; i < ids; ++i) positions.push_back((ids - 1 - i) * kRowStride);
    rows.resize(ids * kRowStride);
    for (float& value : rows) value = static_cast<float>(random.Normal());
    argmax.resize(rule.kind == Pooling::kMax ? kSamples * kDim : 0);
  }

  size_t width() const { return rule.width(kDim); }
  // first_column: of the feature's block.
  PoolingInput input(size_t first_column = 0) {
    return {.rule = rule,
            .feature = batch.feature(0),
            .dim = kDim,
            .row_positions = positions,
            .first_column = first_column,
            .argmax = argmax};
  }
  void PoolInto(MatrixView<float> pooled, size_t first_column = 0) {
    const PoolingInput of = input(first_column);
    // In two parts: a call may begin at any sample.
    for (const size_t first : {size_t{0}, kSamples / 3}) {
      const size_t end = first == 0 ? kSamples / 3 : kSamples;
      Pool({&of, 1}, rows, first, pooled.Rows(first, end - first));
    }
  }

  // The rule by its definition, in f64, for any rows.
  std::vector<double> Reference(const std::vector<double>& of) const {
    std::vector<double> out(kSamples * width());
    const FeatureView feature = batch.feature(0);
    for (size_t s = 0; s < kSamples; ++s) {
      const auto occurrences = feature.sample(s);
      const double n = static_cast<double>(occurrences.size()) / rule.rows_per_id;
      for (size_t i = 0; i < occurrences.size(); ++i) {
        for (size_t d = 0; d < kDim; ++d) {
          const double x = of[positions[occurrences[i]] + d];
          double& sum = out[s * width() + d];
          const double weight = feature.weights[feature.offsets[s] + i];
          if (rule.kind == Pooling::kSum) sum += x;
          if (rule.kind == Pooling::kMean) sum += x / n;
          if (rule.kind == Pooling::kSqrtN) sum += x / std::sqrt(n);
          if (rule.kind == Pooling::kWeightedSum) sum += weight * x;
          if (rule.kind == Pooling::kMax) sum = i == 0 ? x : std::max(sum, x);
          const size_t place = i / rule.rows_per_id;
          if (rule.kind == Pooling::kRaw && place < rule.length) {
            out[s * width() + place * kDim + d] += x;
          }
        }
      }
    }
    return out;
  }

  const PoolingRule rule;
  Random random;
  CompactBatch batch;
  std::vector<uint64_t> positions;
  std::vector<float> rows;
  std::vector<uint32_t> argmax;
};

PoolingRule AnyRule() {
  return GENERATE(
      PoolingRule{}, PoolingRule{.rows_per_id = 2}, PoolingRule{Pooling::kMean},
      PoolingRule{.kind = Pooling::kMean, .rows_per_id = 3}, PoolingRule{Pooling::kSqrtN},
      PoolingRule{.kind = Pooling::kSqrtN, .rows_per_id = 2}, PoolingRule{Pooling::kMax},
      PoolingRule{Pooling::kWeightedSum}, PoolingRule{Pooling::kRaw, 3},
      PoolingRule{Pooling::kRaw, 8}, PoolingRule{Pooling::kRaw, 2, 3});
}

TEST_CASE("Every pooling is what its definition says, and stays within its block") {
  const PoolingRule rule = AnyRule();
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(static_cast<int>(rule.kind), rule.length, rule.rows_per_id, seed);
  Fixture fixture(rule, seed);
  const size_t width = fixture.width();
  const size_t stride = width + 4;  // The block is part of a wider matrix.
  std::vector<float> out(kSamples * stride, 7.0F);
  fixture.PoolInto({out.data(), kSamples, stride}, /*first_column=*/2);
  const auto expected = fixture.Reference({fixture.rows.begin(), fixture.rows.end()});
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t c = 0; c < width; ++c) {
      CHECK(out[s * stride + 2 + c] == Approx(expected[s * width + c]).margin(1e-5));
    }
    for (const size_t outside : {size_t{0}, size_t{1}, width + 2, width + 3}) {
      CHECK(out[s * stride + outside] == 7.0F);
    }
  }
}

TEST_CASE("Un-pooling is what finite differences of the definition say, for every row") {
  const PoolingRule rule = AnyRule();
  const uint64_t seed = GENERATE(4, 5);
  CAPTURE(static_cast<int>(rule.kind), rule.length, rule.rows_per_id, seed);
  Fixture fixture(rule, seed);
  const size_t width = fixture.width();
  std::vector<float> out(kSamples * width);
  fixture.PoolInto({out.data(), kSamples, width});
  std::vector<float> gradient(kSamples * width);
  for (float& value : gradient) value = static_cast<float>(fixture.random.Normal());
  std::vector<float> row_gradients(fixture.rows.size());
  const PoolingInput input = fixture.input();
  const MatrixView<const float> gradients(gradient.data(), kSamples, width);
  CHECK(Unpool({&input, 1}, 0, gradients.Rows(0, 10), row_gradients));
  CHECK(Unpool({&input, 1}, 10, gradients.Rows(10, kSamples - 10), row_gradients));

  std::vector<double> rows(fixture.rows.begin(), fixture.rows.end());
  const auto loss = [&] {
    const std::vector<double> pooled = fixture.Reference(rows);
    double sum = 0;
    for (size_t i = 0; i < pooled.size(); ++i) sum += pooled[i] * gradient[i];
    return sum;
  };
  // So little that no other element becomes the largest.
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double here = rows[i];
    rows[i] = here + kStep;
    const double above = loss();
    rows[i] = here - kStep;
    const double below = loss();
    rows[i] = here;
    CHECK(row_gradients[i] == Approx((above - below) / (2 * kStep)).margin(1e-4));
  }
}

TEST_CASE("A gradient that is not finite is in a sum, or un-pooling reports it") {
  const PoolingRule rule = AnyRule();
  CAPTURE(static_cast<int>(rule.kind), rule.length, rule.rows_per_id);
  Fixture fixture(rule, 6);
  const size_t width = fixture.width();
  std::vector<float> out(kSamples * width);
  fixture.PoolInto({out.data(), kSamples, width});
  std::vector<float> gradient(kSamples * width, 1.0F);
  const PoolingInput input = fixture.input();
  size_t reported = 0;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (float& cell : gradient) {
      const float good = std::exchange(cell, bad);
      std::vector<float> row_gradients(fixture.rows.size());
      const bool well = Unpool({&input, 1}, 0, {gradient.data(), kSamples, width}, row_gradients);
      CHECK(well == !AllFinite(row_gradients));
      reported += well ? 0 : 1;
      cell = good;
    }
  }
  CHECK(reported > 0);  // Of samples without ids.
}

TEST_CASE("A tie of max is the first one's; a sample without ids gives no gradient") {
  BatchBuilder builder(1, 0);
  builder.AddId(0, 1);
  builder.AddId(0, 2);
  builder.EndSample();
  builder.EndSample();
  const CompactBatch batch = *builder.Build()->sparse;
  const std::vector<uint64_t> positions{0, 2};
  const std::vector<float> rows{3, -1, 3, 0};
  std::vector<float> out(4, 9.0F);
  std::vector<uint32_t> argmax(4, 77);
  const PoolingInput input{.rule = {Pooling::kMax},
                           .feature = batch.feature(0),
                           .dim = 2,
                           .row_positions = positions,
                           .argmax = argmax};
  Pool({&input, 1}, rows, 0, {out.data(), 2, 2});
  CHECK(out == std::vector<float>{3, 0, 0, 0});
  std::vector<float> row_gradients(4);
  const std::vector<float> gradient{5, 6, 7, 8};
  CHECK(Unpool({&input, 1}, 0, {gradient.data(), 2, 2}, row_gradients));
  CHECK(row_gradients == std::vector<float>{5, 0, 0, 6});
}

TEST_CASE("Max has the same bits with and without argmax") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Fixture fixture({Pooling::kMax}, seed);
    // Zeros of both signs, and NaN, which is larger than every earlier element.
    for (size_t i = 0; i < fixture.rows.size(); i += 3) {
      constexpr float kSpecial[] = {0.0F, -0.0F, std::numeric_limits<float>::quiet_NaN()};
      fixture.rows[i] = kSpecial[fixture.random.Below(3)];
    }
    std::vector<float> told(kSamples * kDim);
    std::vector<float> untold(kSamples * kDim, 7.0F);
    fixture.PoolInto({told.data(), kSamples, kDim});
    fixture.argmax.clear();
    fixture.PoolInto({untold.data(), kSamples, kDim});
    CHECK(std::ranges::equal(std::as_bytes(std::span(told)), std::as_bytes(std::span(untold))));
  }
}

TEST_CASE("A raw feature gives its true lengths, at most its positions") {
  BatchBuilder builder(1, 0);
  for (const size_t ids : {0, 2, 4, 10}) {
    for (size_t i = 0; i < ids; ++i) builder.AddId(0, i);
    builder.EndSample();
  }
  const CompactBatch batch = *builder.Build()->sparse;
  const std::vector<size_t> expected{0, 1, 2, 3};
  for (size_t s = 0; s < 4; ++s) {
    CHECK(TrueLength({Pooling::kRaw, 3, 2}, batch.feature(0), s) == expected[s]);
  }
}

TEST_CASE("AllFinite finds one bad value anywhere") {
  constexpr size_t kColumns = 5;
  constexpr size_t kStride = 9;  // The block is part of a wider matrix.
  std::vector<float> values(4 * kStride, 1e30F);
  const MatrixView<const float> block(values.data() + 2, 4, kColumns, kStride);
  CHECK(AllFinite(block));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < kStride; ++column) {
        float& cell = values[row * kStride + column];
        const float good = std::exchange(cell, bad);
        CHECK(AllFinite(block) == (column < 2 || column >= 2 + kColumns));
        cell = good;
      }
    }
  }
}

}  // namespace
}  // namespace simurgh
