#pragma once

#include <cstdint>
#include <span>

#include "simurgh/data/compact_batch.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// Sums each sample's rows. A sample without ids reads as zeros; an id that occurs twice counts
// twice.
//
// row_positions: (U) where in `rows` the row of each of the feature's ids begins.
// pooled: (B, D) overwritten. Order of addition is by occurrence.
// Threads: any; touches only its arguments.
void PoolSum(const FeatureView& feature, std::span<const uint64_t> row_positions,
             std::span<const float> rows, MatrixView<float> pooled);

// The adjoint of PoolSum: adds each sample's gradient to the rows that were pooled into it.
//
// gradient: (B, D). row_gradients: laid out like `rows`; added to, so zero it before the first
// feature. Order of addition is by sample and occurrence, so that results do not depend on threads.
// Threads: any; touches only its arguments.
void UnpoolSum(const FeatureView& feature, std::span<const uint64_t> row_positions,
               MatrixView<const float> gradient, std::span<float> row_gradients);

// True when no element is NaN or infinite.
bool AllFinite(MatrixView<const float> matrix);

}  // namespace simurgh
