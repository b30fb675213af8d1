#include "simurgh/feature/pooling.h"

#include <algorithm>
#include <cmath>

namespace simurgh {
namespace {

void AddTo(float* sum, const float* row, size_t dim) {
  for (size_t d = 0; d < dim; ++d) sum[d] += row[d];
}

}  // namespace

void PoolSum(const FeatureView& feature, std::span<const uint64_t> row_positions,
             std::span<const float> rows, MatrixView<float> pooled) {
  const size_t dim = pooled.columns();
  for (size_t sample = 0; sample < pooled.rows(); ++sample) {
    const std::span<float> sum = pooled.row(sample);
    const std::span<const uint32_t> occurrences = feature.sample(sample);
    if (occurrences.empty()) {
      std::fill(sum.begin(), sum.end(), 0.0F);
      continue;
    }
    const float* first = rows.data() + row_positions[occurrences[0]];
    std::copy(first, first + dim, sum.begin());
    for (const uint32_t occurrence : occurrences.subspan(1)) {
      AddTo(sum.data(), rows.data() + row_positions[occurrence], dim);
    }
  }
}

void UnpoolSum(const FeatureView& feature, std::span<const uint64_t> row_positions,
               MatrixView<const float> gradient, std::span<float> row_gradients) {
  const size_t dim = gradient.columns();
  for (size_t sample = 0; sample < gradient.rows(); ++sample) {
    for (const uint32_t occurrence : feature.sample(sample)) {
      AddTo(row_gradients.data() + row_positions[occurrence], gradient.row(sample).data(), dim);
    }
  }
}

bool AllFinite(MatrixView<const float> matrix) {
  for (size_t row = 0; row < matrix.rows(); ++row) {
    // x * 0 is 0 for a finite x and NaN else; one flag a row keeps the loop free of branches.
    float sum = 0.0F;
    for (const float x : matrix.row(row)) sum += x * 0.0F;
    if (std::isnan(sum)) return false;
  }
  return true;
}

}  // namespace simurgh
