// Pooling of rows, compared with its definition in f64.

#include "tests/unit/nn/cuda/pooling_runs.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "embedding/row_codec.h"

namespace simurgh::testing {
namespace {

// Features and, of each, its list.
struct Layout {
  std::vector<FeatureRows> features;
  std::vector<uint32_t> lists;

  EmbeddingWire WireIn(VectorPrecision precision) const {
    EmbeddingWire wire{.embeddings = precision, .rows = features};
    for (const FeatureRows& feature : features) {
      wire.dims.insert(wire.dims.end(), feature.rule.width(feature.dim) / feature.dim, feature.dim);
    }
    return wire;
  }
};

std::vector<Layout> Layouts() {
  return {
      {{{.dim = 1}}, {0}},
      {{{.dim = 3, .rule = {.kind = Pooling::kSqrtN, .rows_per_id = 2}},
        {.dim = 5, .rule = {.kind = Pooling::kWeightedSum}},
        {.dim = 3, .rule = {.kind = Pooling::kRaw, .length = 3, .rows_per_id = 2}},
        {.dim = 4, .rule = {.kind = Pooling::kMean}},
        {.dim = 5, .rule = {.kind = Pooling::kMean, .rows_per_id = 3}}},
       {0, 1, 0, 2, 1}},
      {{{.dim = 130},
        {.dim = 1, .rule = {.kind = Pooling::kRaw, .length = 1}},
        {.dim = 33, .rule = {.kind = Pooling::kRaw, .length = 4}},
        {.dim = 64, .rule = {.kind = Pooling::kSqrtN}}},
       {0, 1, 2, 3}},
  };
}

std::shared_ptr<const CompactBatch> BatchOf(const Layout& layout, size_t samples, bool weighted,
                                            Random& random) {
  BatchBuilder builder(layout.lists, 0);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < layout.features.size(); ++f) {
      for (uint64_t ids = random.Below(6); ids > 0; --ids) {
        const auto weight = static_cast<float>(random.Normal());
        builder.AddId(f, random.Below(50), weighted ? weight : 1.0F);
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// Encoded rows of a batch, and the numbers that they decode to.
struct Rows {
  Rows(const RowCodec& codec, const CompactBatch& ids, Random& random) {
    codec.ForEachId(ids, [&](size_t, const VectorCodec& code) {
      std::vector<float>& row = numbers.emplace_back(code.columns());
      const MatrixView<float> matrix(row.data(), 1, row.size());
      for (float& number : row) number = static_cast<float>(random.Normal());
      std::vector<std::byte> bytes(code.row_bytes());
      code.Encode(matrix, 1, std::nullopt, bytes);
      code.Decode(bytes, 1, matrix);
      encoded.insert(encoded.end(), bytes.begin(), bytes.end());
    });
  }

  std::vector<std::byte> encoded;
  std::vector<std::vector<float>> numbers;  // By id.
};

// A cell's expected value and the magnitude of its terms.
struct Expected {
  double value = 0;
  double size = 0;
  double terms = 0;
};

Expected CellOf(const FeatureRows& feature, const FeatureView& view, size_t sample, size_t column,
                const std::vector<std::vector<float>>& numbers) {
  const PoolingRule& rule = feature.rule;
  const std::span<const uint32_t> occurrences = view.sample(sample);
  size_t first = 0;
  size_t end = occurrences.size();
  if (rule.kind == Pooling::kRaw) {
    first = column / feature.dim * rule.rows_per_id;
    end = std::min(end, first + rule.rows_per_id);
  }
  Expected cell;
  for (size_t i = first; i < end; ++i) {
    double term = numbers[view.first_id + occurrences[i]][column % feature.dim];
    if (rule.kind == Pooling::kWeightedSum && !view.weights.empty()) {
      term *= view.weights[view.offsets[sample] - view.offsets[0] + i];
    }
    cell.value += term;
    cell.size += std::abs(term);
    ++cell.terms;
  }
  const double ids = std::ceil(static_cast<double>(occurrences.size()) / rule.rows_per_id);
  const double divisor = rule.kind == Pooling::kMean    ? ids
                         : rule.kind == Pooling::kSqrtN ? std::sqrt(ids)
                                                        : 1.0;
  if (cell.terms > 0) {
    cell.value /= divisor;
    cell.size /= divisor;
  }
  return cell;
}

// A sum of n products is rounded 2 n times, and the divisor, its inverse and the quotient once.
void CheckPooled(const Layout& layout, const CompactBatch& ids, const Rows& rows,
                 const std::vector<float>& pooled) {
  size_t i = 0;
  for (size_t sample = 0; sample < ids.batch_size; ++sample) {
    for (size_t f = 0; f < layout.features.size(); ++f) {
      const FeatureRows& feature = layout.features[f];
      const FeatureView view = ids.feature(f);
      for (size_t c = 0; c < feature.rule.width(feature.dim); ++c, ++i) {
        const Expected cell = CellOf(feature, view, sample, c, rows.numbers);
        const double tolerance = (2 * cell.terms + 3) * 0x1p-24 * cell.size;
        if (std::abs(pooled[i] - cell.value) <= tolerance) continue;
        CAPTURE(sample, f, c, pooled[i], cell.value, tolerance);
        FAIL("differs");
      }
    }
  }
  CHECK(i == pooled.size());
}

TEST_CASE("rows are pooled as defined, in f64") {
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16,
                                  VectorPrecision::kF16, VectorPrecision::kInt8);
  const size_t layout_index = GENERATE(0, 1, 2);
  CAPTURE(static_cast<int>(precision), layout_index);
  const Layout layout = Layouts()[layout_index];
  const EmbeddingWire wire = layout.WireIn(precision);
  const RowCodec codec(precision, wire.rows);
  const auto pooler = NewTestPooler(wire);
  Random random(layout_index + 31);
  size_t batches = 0;
  for (const size_t samples : {37, 1, 0, 300, 2, 129, 64}) {
    CAPTURE(samples);
    const auto ids = BatchOf(layout, samples, ++batches % 2 == 0, random);
    const Rows rows(codec, *ids, random);
    CheckPooled(layout, *ids, rows, pooler->Pool(ids, rows.encoded));
  }
}

}  // namespace
}  // namespace simurgh::testing
