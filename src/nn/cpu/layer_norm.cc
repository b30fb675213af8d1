#include "nn/cpu/layer_norm.h"

#include <algorithm>

#include "nn/cpu/column_sums.h"
#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {
namespace {

// Returns the mean of term(c) over a row's columns. Sums lane by lane, as vector instructions do.
template <typename Term>
float MeanOf(size_t columns, const Term& term) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += term(c + k);
  }
  double sum = 0;
  for (; c < columns; ++c) sum += static_cast<double>(term(c));
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return static_cast<float>(sum / static_cast<double>(columns));
}

}  // namespace

void LayerNormForward(MatrixView<const float> input, std::span<const float> scale,
                      std::span<const float> shift, float epsilon, MatrixView<float> statistics,
                      MatrixView<float> output) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    float* y = output.row(r).data();
    const float mean = MeanOf(scale.size(), [=](size_t c) { return x[c]; });
    const float variance =
        MeanOf(scale.size(), [=](size_t c) { return (x[c] - mean) * (x[c] - mean); });
    const float inverse = InverseDeviation(variance, epsilon);
    statistics(r, 0) = mean;
    statistics(r, 1) = inverse;
    for (size_t c = 0; c < scale.size(); ++c) {
      y[c] = (x[c] - mean) * inverse * scale[c] + shift[c];
    }
  });
}

void LayerNormBackward(MatrixView<const float> input, std::span<const float> scale,
                       MatrixView<const float> statistics, MatrixView<const float> output_gradient,
                       MatrixView<float> input_gradient) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* dy = output_gradient.row(r).data();
    float* dx = input_gradient.row(r).data();
    const float mean = statistics(r, 0);
    const float inverse = statistics(r, 1);
    const float offset = MeanOf(scale.size(), [=](size_t c) { return dy[c] * scale[c]; });
    const float slope = MeanOf(
        scale.size(), [=](size_t c) { return dy[c] * scale[c] * ((x[c] - mean) * inverse); });
    for (size_t c = 0; c < scale.size(); ++c) {
      dx[c] = inverse * (dy[c] * scale[c] - offset - (x[c] - mean) * inverse * slope);
    }
  });
}

void LayerNormBackwardWeights(MatrixView<const float> input, MatrixView<const float> statistics,
                              MatrixView<const float> output_gradient,
                              std::span<float> scale_gradient, std::span<float> shift_gradient) {
  SumAllColumns(
      input.rows(),
      [=](size_t r, size_t c) {
        return output_gradient(r, c) * ((input(r, c) - statistics(r, 0)) * statistics(r, 1));
      },
      scale_gradient);
  SumAllColumns(
      input.rows(), [=](size_t r, size_t c) { return output_gradient(r, c); }, shift_gradient);
}

}  // namespace simurgh::cpu
