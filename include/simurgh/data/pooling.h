#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/config/feature_config.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// How a feature's rows become its block of the embedding matrix. With n the number of a sample's
// ids, each of which is the sum of `rows_per_id` consecutive occurrences, r_i the rows of the
// occurrences and w_i their weights:
//
//   sum           sum of r_i
//   mean          sum of r_i / n
//   sqrt_n        sum of r_i / sqrt(n)
//   max           the largest of each element; a tie is the first one's. rows_per_id is 1.
//   weighted_sum  sum of w_i * r_i
//   raw           (length * D) the first `length` ids one behind the other, then zeros
//
// A sample without ids gives zeros. An id that occurs twice counts twice.
struct PoolingRule {
  Pooling kind = Pooling::kSum;
  uint32_t length = 0;       // Ids of a sample that raw has places for.
  uint32_t rows_per_id = 1;  // Rounds of a hash stack.

  // Columns of the block, where rows have this dim.
  size_t width(size_t dim) const { return kind == Pooling::kRaw ? length * dim : dim; }
  // How many ids n so many occurrences are.
  size_t ids_of(size_t occurrences) const { return (occurrences + rows_per_id - 1) / rows_per_id; }
};

// A feature's rows, in all batches.
struct FeatureRows {
  uint32_t dim = 0;
  PoolingRule rule = {};
};

// A feature of a batch with the way to its rows.
struct PoolingInput {
  PoolingRule rule;
  FeatureView feature;
  size_t dim = 0;  // D
  std::span<const uint64_t>
      row_positions;        // (U) where the row of each of the feature's ids begins.
  size_t first_sample = 0;  // Of the block that is pooled: its row b is of first_sample + b.
};

// Pools a feature's samples from first_sample on.
//
// rows: of row_positions. pooled: (B, width) overwritten. argmax: (B * D) for max only: which of
// its sample's occurrences each element is of; not set where a sample has none. Empty for all other
// poolings, and where nobody will un-pool.
// Order of addition is by occurrence.
// Threads: any; touches only its arguments.
void Pool(const PoolingInput& input, std::span<const float> rows, MatrixView<float> pooled,
          std::span<uint32_t> argmax);

// A feature's share of an un-pooling.
struct UnpoolingInput {
  PoolingInput pooling;
  MatrixView<const float> gradient;  // (B, width)
  std::span<const uint32_t> argmax;  // As Pool set them.
};

// The adjoint: adds to each row what the gradients of the pooled blocks say of it.
//
// inputs: of the same samples. row_gradients: laid out like `rows`; added to, so zero it before the
// first samples. Order of addition is by sample, in a sample by input, in an input by occurrence,
// so that results do not depend on threads; only inputs that have rows in common need to come
// together.
// Threads: any; touches only its arguments.
void Unpool(std::span<const UnpoolingInput> inputs, std::span<float> row_gradients);

// The places of a raw feature that a sample fills: its true length. A place is masked, and zeros,
// from there on; Unpool leaves its gradient aside. Whoever has the batch can tell, so nothing of it
// travels: RawMasks tells the dense network.
size_t TrueLength(const PoolingRule& rule, const FeatureView& feature, size_t sample);

// True when no element is NaN or infinite.
bool AllFinite(MatrixView<const float> matrix);

}  // namespace simurgh
