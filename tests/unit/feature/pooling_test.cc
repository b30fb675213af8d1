#include "simurgh/feature/pooling.h"

#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {
namespace {

constexpr size_t kDim = 5;
constexpr size_t kStride = 9;  // The feature's block lies within a wider matrix.

struct Fixture {
  explicit Fixture(uint64_t seed) : random(seed) {
    BatchBuilder builder(1, 0);
    for (size_t s = 0; s < kSamples; ++s) {
      const uint64_t ids = random.Below(5);
      for (uint64_t i = 0; i < ids; ++i) builder.AddId(0, random.Below(12));
      builder.EndSample();
    }
    batch = *builder.Build()->sparse;
    // Rows in reverse, with gaps: positions are anything the plan says.
    const size_t ids = batch.ids.size();
    for (size_t i = 0; i < ids; ++i) positions.push_back((ids - 1 - i) * (kDim + 2));
    rows.resize(ids * (kDim + 2));
    for (float& value : rows) value = static_cast<float>(random.Normal());
  }

  static constexpr size_t kSamples = 30;
  Random random;
  CompactBatch batch;
  std::vector<uint64_t> positions;
  std::vector<float> rows;
};

TEST_CASE("Sum pooling adds each occurrence, duplicates counted") {
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  Fixture fixture(seed);
  std::vector<float> out(Fixture::kSamples * kStride, 7.0F);
  const MatrixView<float> pooled(out.data() + 2, Fixture::kSamples, kDim, kStride);
  const FeatureView feature = fixture.batch.feature(0);
  PoolSum(feature, fixture.positions, fixture.rows, pooled);
  for (size_t s = 0; s < Fixture::kSamples; ++s) {
    for (size_t d = 0; d < kDim; ++d) {
      double expected = 0;
      for (const uint32_t o : feature.sample(s)) expected += fixture.rows[fixture.positions[o] + d];
      CHECK(pooled(s, d) == Approx(expected).margin(1e-5));
    }
    CHECK(out[s * kStride] == 7.0F);  // Outside of the block nothing is touched.
    CHECK(out[s * kStride + 8] == 7.0F);
  }
}

TEST_CASE("Un-pooling is the adjoint of pooling") {
  // <Pool(rows), g> = <rows, Unpool(g)> for every rows and g.
  const uint64_t seed = GENERATE(4, 5, 6);
  CAPTURE(seed);
  Fixture fixture(seed);
  const FeatureView feature = fixture.batch.feature(0);
  std::vector<float> out(Fixture::kSamples * kDim);
  std::vector<float> gradient(Fixture::kSamples * kDim);
  for (float& value : gradient) value = static_cast<float>(fixture.random.Normal());
  PoolSum(feature, fixture.positions, fixture.rows, {out.data(), Fixture::kSamples, kDim});
  std::vector<float> row_gradients(fixture.rows.size());
  UnpoolSum(feature, fixture.positions, {gradient.data(), Fixture::kSamples, kDim}, row_gradients);
  double left = 0;
  double right = 0;
  for (size_t i = 0; i < out.size(); ++i) left += double{out[i]} * gradient[i];
  for (size_t i = 0; i < fixture.rows.size(); ++i) {
    right += double{fixture.rows[i]} * row_gradients[i];
  }
  CHECK(left == Approx(right).epsilon(1e-5));
}

TEST_CASE("AllFinite finds one bad value anywhere") {
  std::vector<float> values(4 * kStride, 1e30F);
  const MatrixView<const float> block(values.data() + 2, 4, kDim, kStride);
  CHECK(AllFinite(block));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < kStride; ++column) {
        float& cell = values[row * kStride + column];
        const float good = std::exchange(cell, bad);
        CHECK(AllFinite(block) == (column < 2 || column >= 2 + kDim));
        cell = good;
      }
    }
  }
}

}  // namespace
}  // namespace simurgh
