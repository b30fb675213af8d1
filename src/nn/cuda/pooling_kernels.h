#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "embedding/pooling.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/matrix.h"
#include "nn/host_device.h"

// Kernels that pool a batch's encoded rows, bit by bit as simurgh::Pool.
namespace simurgh::cuda {

// A feature whose rows are pooled, in device memory.
struct PooledFeature {
  PoolingRule rule;
  uint32_t dim = 0;
  uint32_t first_column = 0;  // First column of the feature's block.
  uint32_t row_bytes = 0;     // Size of an encoded row.
  uint32_t scale_offset = 0;  // int8: offset of the scale in the row.
};

// Index of the rows of a batch with B samples and F features.
struct RowIndex {
  // Byte offsets in the batch's input, (2 + F): of the occurrences, of the weights (0: none) and of
  // each feature's row offsets, which are byte offsets of its ids' rows in the input.
  static constexpr size_t kOccurrences = 0;
  static constexpr size_t kWeights = 1;
  static constexpr size_t kRowOffsets = 2;

  const uint64_t* first_bytes = nullptr;
  const uint32_t* offsets = nullptr;  // (F * B + 1) of CompactBatch.
};

// to(b, c) = column c of the pooled occurrences of sample b, added in the order of occurrences.
struct PoolCell {
  const PooledFeature* features;
  const uint32_t* feature_of;  // Indexed by column.
  VectorPrecision precision;
  const std::byte* input;
  RowIndex index;
  Matrix<float> to;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t column) const {
    const uint32_t f = feature_of[column];
    const PooledFeature& feature = features[f];
    const uint32_t* const bounds = index.offsets + f * to.rows + sample;
    uint32_t first = bounds[0];
    uint32_t count = bounds[1] - first;
    auto element = static_cast<uint32_t>(column) - feature.first_column;
    if (feature.rule.kind == Pooling::kRaw) {
      // The occurrences at the column's position in the list; without any, zeros.
      const uint32_t before = element / feature.dim * feature.rule.rows_per_id;
      element %= feature.dim;
      first += before;
      count = count > before ? count - before : 0;
      count = count < feature.rule.rows_per_id ? count : feature.rule.rows_per_id;
    }
    to(sample, column) = count == 0 ? 0.0F : Pooled(f, first, count, element);
  }

 private:
  SIMURGH_HOST_DEVICE float Pooled(uint32_t f, uint32_t first, uint32_t count,
                                   uint32_t element) const {
    const PoolingRule& rule = features[f].rule;
    const std::byte* const all = input + index.first_bytes[RowIndex::kOccurrences];
    const uint32_t* const occurrences = &ElementOf<uint32_t>(all, first);
    const uint64_t all_weights = index.first_bytes[RowIndex::kWeights];
    if (rule.kind == Pooling::kWeightedSum && all_weights > 0) {
      const float* const weights = &ElementOf<float>(input + all_weights, first);
      float sum = 0.0F;
      for (uint32_t i = 0; i < count; ++i) {
        sum += weights[i] * Number(f, occurrences[i], element);
      }
      return sum;
    }
    float sum = Number(f, occurrences[0], element);
    for (uint32_t i = 1; i < count; ++i) sum += Number(f, occurrences[i], element);
    const uint32_t whole_ids = (count + rule.rows_per_id - 1) / rule.rows_per_id;
    const auto ids = static_cast<float>(whole_ids);
    if (rule.kind == Pooling::kMean) return sum * (1.0F / ids);
    if (rule.kind == Pooling::kSqrtN) return sum * (1.0F / std::sqrt(ids));
    return sum;
  }

  SIMURGH_HOST_DEVICE float Number(uint32_t f, uint32_t id, uint32_t element) const {
    const PooledFeature& feature = features[f];
    const uint64_t row_offset =
        ElementOf<uint64_t>(input + index.first_bytes[RowIndex::kRowOffsets + f], id);
    const std::byte* const row = input + row_offset;
    if (precision != VectorPrecision::kInt8) return WidenElement(precision, row, element);
    return WidenByte(row, element, ElementOf<float>(row + feature.scale_offset, 0));
  }
};

}  // namespace simurgh::cuda
