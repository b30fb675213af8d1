#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Combines a feature's rows to its block of the embedding matrix, as Pooling says.
struct PoolingRule {
  Pooling kind = Pooling::kSum;
  uint32_t length = 0;       // raw: places per sample.
  uint32_t rows_per_id = 1;  // Rounds of a hash stack.

  // Returns the columns of the block. dim: dim of the rows.
  size_t width(size_t dim) const { return kind == Pooling::kRaw ? length * dim : dim; }
  // Returns the number of ids n for this number of occurrences.
  size_t ids_of(size_t occurrences) const { return (occurrences + rows_per_id - 1) / rows_per_id; }
};

// Rows and pooling of a feature.
struct FeatureRows {
  uint32_t dim = 0;
  PoolingRule rule = {};
  uint32_t table = 0;
};

// The vectors of this number of samples fit the first caches of a processor.
inline constexpr size_t kSamplesAtOnce = 16;

// A feature of a batch with the positions of its rows.
struct PoolingInput {
  PoolingRule rule;
  FeatureView feature;
  size_t dim = 0;                           // D
  std::span<const uint64_t> row_positions;  // (U) first float of each id's row.
  size_t first_column = 0;                  // First column of the feature's block.
  // For max only, (samples of the feature * D): the index of each element's occurrence in its
  // sample; not set for a sample without ids. Pool() sets it unless it is empty; Unpool() reads it.
  std::span<uint32_t> argmax = {};
};

// Pools the features of the samples from `first` on.
//
// pooled: row b is sample first + b; overwrites the features' blocks. Additions are in the order of
// occurrences. Threads: any; touches only its arguments.
void Pool(std::span<const PoolingInput> inputs, std::span<const float> rows, size_t first,
          MatrixView<float> pooled);

// The adjoint: adds the gradients of the pooled blocks to the gradient of each row.
//
// gradients: same layout as `pooled`. row_gradients: in the layout of `rows`; zero it before the
// first samples. Additions are by sample, then input, then occurrence, so results do not depend on
// threads. Inputs that share rows must be in one call. Returns whether all gradients that no row
// receives are finite: those of samples without ids, and of places without an id. Any other NaN or
// infinity is still in a sum.
// Threads: any; touches only its arguments.
bool Unpool(std::span<const PoolingInput> inputs, size_t first, MatrixView<const float> gradients,
            std::span<float> row_gradients);

// Number of filled places of a sample in a raw feature. The others are zero and masked, and Unpool
// ignores their gradients.
size_t TrueLength(const PoolingRule& rule, const FeatureView& feature, size_t sample);

// Returns whether no element is NaN or infinite.
bool AllFinite(MatrixView<const float> matrix);

}  // namespace simurgh
