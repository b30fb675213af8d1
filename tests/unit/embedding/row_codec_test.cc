#include "embedding/row_codec.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

// Its views are of its own memory.
static_assert(!std::is_copy_constructible_v<RowCodec::Inputs>);

constexpr size_t kSamples = 37;

// All poolings but max; dims of every remainder by 4; two features that share a list.
const std::vector<FeatureRows> kFeatures = {
    {.dim = 4, .rule = {.kind = Pooling::kSum}},
    {.dim = 3, .rule = {.kind = Pooling::kMean, .rows_per_id = 2}},
    {.dim = 4, .rule = {.kind = Pooling::kRaw, .length = 2}},
    {.dim = 5, .rule = {.kind = Pooling::kSqrtN}},
    {.dim = 2, .rule = {.kind = Pooling::kWeightedSum}},
    {.dim = 1, .rule = {.kind = Pooling::kRaw, .length = 3, .rows_per_id = 2}},
};
const std::vector<uint32_t> kLists = {0, 1, 0, 2, 3, 4};
constexpr size_t kWidth = 4 + 3 + 8 + 5 + 2 + 3;

std::shared_ptr<const CompactBatch> RandomIds(Random& random, size_t samples) {
  BatchBuilder builder(kLists, 0);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < kFeatures.size(); ++f) {
      for (uint64_t ids = random.Below(5); ids > 0; --ids) {
        builder.AddId(f, random.Below(20), static_cast<float>(random.Normal()));
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// Rows of a batch's ids in no particular order.
struct Rows {
  Rows(const CompactBatch& batch, Random& random) {
    for (size_t list = batch.list_count(); list-- > 0;) {
      size_t feature = 0;
      while (kLists[feature] != list) ++feature;
      const std::span<const uint64_t> ids = batch.list(list);
      const auto first = static_cast<size_t>(ids.data() - batch.ids.data());
      positions.resize(std::max(positions.size(), first + ids.size()));
      for (size_t i = 0; i < ids.size(); ++i) {
        positions[first + i] = numbers.size();
        for (uint32_t d = 0; d < kFeatures[feature].dim; ++d) {
          numbers.push_back(static_cast<float>(random.Normal()));
        }
      }
    }
  }

  std::vector<float> Pooled(const CompactBatch& batch) const {
    std::vector<float> pooled(batch.batch_size * kWidth);
    const MatrixView<float> matrix(pooled.data(), batch.batch_size, kWidth);
    size_t column = 0;
    for (size_t f = 0; f < kFeatures.size(); ++f) {
      const FeatureView view = batch.feature(f);
      const PoolingInput input{
          .rule = kFeatures[f].rule,
          .feature = view,
          .dim = kFeatures[f].dim,
          .row_positions = std::span(positions).subspan(view.first_id, view.ids.size()),
          .first_column = column};
      Pool({&input, 1}, numbers, 0, matrix);
      column += kFeatures[f].rule.width(kFeatures[f].dim);
    }
    return pooled;
  }

  std::vector<float> numbers;
  std::vector<uint64_t> positions;
};

std::vector<float> PooledFromBytes(const RowCodec& code, const CompactBatch& batch,
                                   std::span<const std::byte> encoded) {
  std::vector<float> pooled(batch.batch_size * kWidth, -1.0F);
  code.Pool(batch, encoded, {pooled.data(), batch.batch_size, kWidth},
            [](size_t count, size_t, auto work) { work(0, count); });
  return pooled;
}

TEST_CASE("Rows that have travelled pool to the same bytes as where they were", "[rows]") {
  const uint64_t seed = GENERATE(range(0, 20));
  CAPTURE(seed);
  Random random(seed);
  const auto batch = RandomIds(random, kSamples);
  REQUIRE(batch->list_count() == 5);
  const Rows rows(*batch, random);
  const RowCodec code(VectorPrecision::kF32, kFeatures);
  std::vector<std::byte> encoded(code.bytes(*batch));
  CHECK(encoded.size() == rows.numbers.size() * sizeof(float));
  code.Encode(*batch, rows.numbers, rows.positions, encoded);
  CHECK(PooledFromBytes(code, *batch, encoded) == rows.Pooled(*batch));
}

TEST_CASE("Rows pool to the same bytes in parts, in any order", "[rows]") {
  Random random(3);
  const auto batch = RandomIds(random, 500);
  const Rows rows(*batch, random);
  const RowCodec code(VectorPrecision::kBf16, kFeatures);
  std::vector<std::byte> encoded(code.bytes(*batch));
  code.Encode(*batch, rows.numbers, rows.positions, encoded);
  std::vector<float> pooled(batch->batch_size * kWidth, -1.0F);
  size_t parts = 0;
  const auto backwards = [&](size_t count, size_t least, auto work) {
    CHECK(least > 0);
    constexpr size_t kPart = 7;
    for (size_t end = count; end > 0; ++parts) {
      const size_t first = (end - 1) / kPart * kPart;
      work(first, end);
      end = first;
    }
  };
  code.Pool(*batch, encoded, {pooled.data(), batch->batch_size, kWidth}, backwards);
  CHECK(parts > 500 / 7);
  CHECK(pooled == PooledFromBytes(code, *batch, encoded));
}

TEST_CASE("Rows in other precisions pool as the numbers that they have become", "[rows]") {
  const auto precision =
      GENERATE(VectorPrecision::kBf16, VectorPrecision::kF16, VectorPrecision::kInt8);
  CAPTURE(static_cast<int>(precision));
  Random random(7);
  const auto batch = RandomIds(random, kSamples);
  Rows rows(*batch, random);
  const RowCodec code(precision, kFeatures);
  std::vector<std::byte> encoded(code.bytes(*batch));
  code.Encode(*batch, rows.numbers, rows.positions, encoded);
  // Each row by itself.
  for (size_t f = 0; f < kFeatures.size(); ++f) {
    if (f == 2) continue;  // Its list is the first one's.
    const VectorCodec one(precision, {kFeatures[f].dim});
    const FeatureView view = batch->feature(f);
    for (size_t i = 0; i < view.ids.size(); ++i) {
      const MatrixView<float> row(rows.numbers.data() + rows.positions[view.first_id + i], 1,
                                  kFeatures[f].dim);
      std::vector<std::byte> bytes(one.row_bytes());
      one.Encode(row, 1, std::nullopt, bytes);
      one.Decode(bytes, 1, row);
    }
  }
  CHECK(PooledFromBytes(code, *batch, encoded) == rows.Pooled(*batch));
}

TEST_CASE("The gradient of a row is the sum over its occurrences, in any parts", "[rows]") {
  const size_t part = GENERATE(1, 2, 100);
  Random random(11);
  const auto batch = RandomIds(random, kSamples);
  const RowCodec code(VectorPrecision::kF32, kFeatures);
  const RowCodec::Inputs all = code.InputsOf(*batch);
  // Whole numbers, and factors of 1 and 1/2: sums are exact in any order.
  std::vector<float> gradients(kSamples * kWidth);
  for (float& gradient : gradients) gradient = static_cast<float>(random.Below(64)) - 32;
  std::vector<float> rows(code.floats(*batch), -1.0F);
  size_t lists = 0;
  code.Unpool(*batch, {gradients.data(), kSamples, kWidth}, rows,
              [&](size_t count, size_t least, auto work) {
                CHECK(least > 0);
                for (size_t first = 0; first < count; first += part) {
                  work(first, std::min(first + part, count));
                }
                lists = count;
              });
  CHECK(lists == batch->list_count());

  std::vector<double> expected(rows.size());
  size_t column = 0;
  for (size_t f = 0; f < kFeatures.size(); ++f) {
    const auto& [dim, rule, table] = kFeatures[f];
    const FeatureView view = batch->feature(f);
    for (size_t s = 0; s < kSamples; ++s) {
      const auto ids = view.sample(s);
      const size_t count = rule.ids_of(ids.size());
      for (size_t o = 0; o < ids.size(); ++o) {
        const size_t place = o / rule.rows_per_id;
        if (rule.kind == Pooling::kRaw && place >= rule.length) continue;
        double factor = 1;
        if (rule.kind == Pooling::kMean) factor = 1.0 / static_cast<double>(count);
        if (rule.kind == Pooling::kSqrtN) factor = 1.0 / std::sqrt(static_cast<double>(count));
        if (rule.kind == Pooling::kWeightedSum) {
          factor = view.weights[view.offsets[s] - view.offsets[0] + o];
        }
        const size_t first = rule.kind == Pooling::kRaw ? place * dim : 0;
        for (size_t d = 0; d < dim; ++d) {
          expected[all.positions[view.first_id + ids[o]] + d] +=
              factor * gradients[s * kWidth + column + first + d];
        }
      }
    }
    column += rule.width(dim);
  }
  for (size_t i = 0; i < rows.size(); ++i) CHECK(rows[i] == Approx(expected[i]).margin(1e-4));
}

TEST_CASE("Gradients go as rows where that is fewer bytes and has the same numbers", "[rows]") {
  // Two samples with this number of distinct ids in each of two features.
  const auto sends = [](const EmbeddingWire& wire, uint64_t ids, const std::vector<uint32_t>& lists,
                        size_t pooled_bytes) {
    BatchBuilder builder(lists, 0);
    for (int s = 0; s < 2; ++s) {
      for (uint64_t i = 0; i < ids; ++i) {
        for (size_t f = 0; f < lists.size(); ++f) builder.AddId(f, i, 1.0F);
      }
      builder.EndSample();
    }
    const RowCodec rows(VectorPrecision::kF32, wire.rows);
    return SendsRowGradients(wire, rows, *builder.Build()->sparse, pooled_bytes);
  };
  EmbeddingWire wire{.rows = {{.dim = 4, .table = 0}, {.dim = 4, .table = 1}},
                     .row_gradients = true};
  CHECK(sends(wire, 1, {0, 1}, 2 * 2 * 16));
  CHECK_FALSE(sends(wire, 2, {0, 1}, 2 * 2 * 16));
  wire.rows[1].table = 0;  // Its rows can be those of the first list.
  CHECK_FALSE(sends(wire, 1, {0, 1}, 2 * 2 * 16));
  CHECK(sends(wire, 1, {0, 0}, 2 * 2 * 16));
  wire.row_gradients = false;
  CHECK_FALSE(sends(wire, 1, {0, 0}, 2 * 2 * 16));
}

TEST_CASE("A batch without samples has no rows", "[rows]") {
  Random random(1);
  const auto batch = RandomIds(random, 0);
  const RowCodec code(VectorPrecision::kInt8, kFeatures);
  CHECK(code.bytes(*batch) == 0);
  CHECK(PooledFromBytes(code, *batch, {}).empty());
}

}  // namespace
}  // namespace simurgh
