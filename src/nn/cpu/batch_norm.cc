#include "nn/cpu/batch_norm.h"

#include <algorithm>
#include <vector>

#include "nn/cpu/column_sums.h"
#include "nn/formulas.h"

namespace simurgh::cpu {
namespace {

float ScaleOf(std::span<const float> scale, size_t column) {
  return scale.empty() ? 1.0F : scale[column];
}

// x: a tile of the input.
void TileStatistics(MatrixView<const float> x, std::span<float> mean, std::span<float> variance) {
  const auto rows = static_cast<double>(x.rows());
  double sums[kTileColumns];
  float center[kTileColumns];
  SumColumns(x.rows(), x.columns(), [=](size_t r, size_t c) { return x(r, c); }, sums);
  for (size_t c = 0; c < x.columns(); ++c) center[c] = static_cast<float>(sums[c] / rows);
  std::copy_n(center, x.columns(), mean.begin());
  SumColumns(
      x.rows(), x.columns(),
      [x, &center](size_t r, size_t c) {
        const float distance = x(r, c) - center[c];
        return distance * distance;
      },
      sums);
  for (size_t c = 0; c < x.columns(); ++c) variance[c] = static_cast<float>(sums[c] / rows);
}

// Normalisation of columns [first, first + n): y = (x - mean) * factor + shift.
void TileNormalise(size_t first, size_t n, MatrixView<const float> x, const BatchNormAffine& affine,
                   float epsilon, std::span<const float> mean, std::span<const float> variance,
                   MatrixView<float> y) {
  float center[kTileColumns];
  float factor[kTileColumns];
  float shift[kTileColumns];
  for (size_t c = 0; c < n; ++c) {
    center[c] = mean[first + c];
    factor[c] = ScaleOf(affine.scale, first + c) * InverseDeviation(variance[first + c], epsilon);
    shift[c] = affine.shift.empty() ? 0.0F : affine.shift[first + c];
  }
  for (size_t r = 0; r < x.rows(); ++r) {
    const float* in = x.row(r).data() + first;
    float* out = y.row(r).data() + first;
    for (size_t c = 0; c < n; ++c) out[c] = (in[c] - center[c]) * factor[c] + shift[c];
  }
}

// Column sums of dy, then of dy times the normalised input: (2, C).
void SumGradients(MatrixView<const float> input, MatrixView<const float> output_gradient,
                  float epsilon, const BatchNormStatistics& statistics, std::span<double> sums) {
  ForEachTile(input.columns(), [&](size_t first, size_t n) {
    const MatrixView<const float> x = input.Columns(first, n);
    const MatrixView<const float> dy = output_gradient.Columns(first, n);
    float center[kTileColumns];
    float inverse[kTileColumns];
    for (size_t c = 0; c < n; ++c) {
      center[c] = statistics.mean[first + c];
      inverse[c] = InverseDeviation(statistics.variance[first + c], epsilon);
    }
    SumColumns(x.rows(), n, [=](size_t r, size_t c) { return dy(r, c); }, sums.data() + first);
    SumColumns(
        x.rows(), n,
        [=, &center, &inverse](size_t r, size_t c) {
          return dy(r, c) * ((x(r, c) - center[c]) * inverse[c]);
        },
        sums.data() + input.columns() + first);
  });
}

}  // namespace

void BatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<float> mean, std::span<float> variance, MatrixView<float> output) {
  ForEachTile(input.columns(), [&](size_t first, size_t n) {
    TileStatistics(input.Columns(first, n), mean.subspan(first, n), variance.subspan(first, n));
    TileNormalise(first, n, input, affine, epsilon, mean, variance, output);
  });
}

void BatchNormPredict(MatrixView<const float> input, const BatchNormAffine& affine, float epsilon,
                      std::span<const float> mean, std::span<const float> variance,
                      MatrixView<float> output) {
  ForEachTile(input.columns(), [&](size_t first, size_t n) {
    TileNormalise(first, n, input, affine, epsilon, mean, variance, output);
  });
}

Status SyncBatchNormForward(MatrixView<const float> input, const BatchNormAffine& affine,
                            float epsilon, const BatchNormGroup& group, std::span<float> mean,
                            std::span<float> variance, MatrixView<float> output) {
  const auto rows = static_cast<double>(std::max<uint64_t>(group.samples, 1));
  std::vector<double> sums(mean.size());
  const auto sum_all = [&](const auto& term) -> Status {
    std::ranges::fill(sums, 0.0);
    if (input.rows() > 0) {
      ForEachTile(input.columns(), [&](size_t first, size_t n) {
        const auto of_tile = [&](size_t r, size_t c) { return term(r, first + c); };
        SumColumns(input.rows(), n, of_tile, sums.data() + first);
      });
    }
    return group.sum(sums);
  };
  SIMURGH_RETURN_IF_ERROR(sum_all([input](size_t r, size_t c) { return input(r, c); }));
  for (size_t c = 0; c < mean.size(); ++c) mean[c] = static_cast<float>(sums[c] / rows);
  SIMURGH_RETURN_IF_ERROR(sum_all([input, mean](size_t r, size_t c) {
    const float distance = input(r, c) - mean[c];
    return distance * distance;
  }));
  for (size_t c = 0; c < mean.size(); ++c) variance[c] = static_cast<float>(sums[c] / rows);
  if (input.rows() > 0) BatchNormPredict(input, affine, epsilon, mean, variance, output);
  return absl::OkStatus();
}

Status BatchNormBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                         std::span<const float> scale, float epsilon,
                         const BatchNormStatistics& statistics, const BatchNormGroup* group,
                         std::span<float> scale_gradient, std::span<float> shift_gradient,
                         MatrixView<float> input_gradient) {
  const size_t columns = input.columns();
  std::vector<double> sums(2 * columns);
  SumGradients(input, output_gradient, epsilon, statistics, sums);
  for (size_t c = 0; c < scale_gradient.size(); ++c) {
    shift_gradient[c] = static_cast<float>(sums[c]);
    scale_gradient[c] = static_cast<float>(sums[columns + c]);
  }
  if (group != nullptr) SIMURGH_RETURN_IF_ERROR(group->sum(sums));
  const auto rows = static_cast<double>(group != nullptr ? group->samples : input.rows());

  // dx = scale / deviation * (dy - mean(dy) - normalised * mean(dy * normalised)), as a linear
  // function of dy and x - mean.
  ForEachTile(columns, [&](size_t first, size_t n) {
    float center[kTileColumns];
    float factor[kTileColumns];
    float slope[kTileColumns];
    float offset[kTileColumns];
    for (size_t c = 0; c < n; ++c) {
      const float inverse = InverseDeviation(statistics.variance[first + c], epsilon);
      center[c] = statistics.mean[first + c];
      factor[c] = ScaleOf(scale, first + c) * inverse;
      slope[c] = static_cast<float>(sums[columns + first + c] / rows) * inverse;
      offset[c] = static_cast<float>(sums[first + c] / rows);
    }
    for (size_t r = 0; r < input.rows(); ++r) {
      const float* in = input.row(r).data() + first;
      const float* gradient = output_gradient.row(r).data() + first;
      float* out = input_gradient.row(r).data() + first;
      for (size_t c = 0; c < n; ++c) {
        out[c] = factor[c] * (gradient[c] - offset[c] - (in[c] - center[c]) * slope[c]);
      }
    }
  });
  return absl::OkStatus();
}

void BatchNormUpdateRunning(size_t batch_rows, float momentum, std::span<const float> batch_mean,
                            std::span<const float> batch_variance, std::span<float> running_mean,
                            std::span<float> running_variance) {
  const auto rows = static_cast<double>(batch_rows);
  const auto unbias = static_cast<float>(batch_rows > 1 ? rows / (rows - 1) : 1.0);
  const float keep = 1.0F - momentum;
  for (size_t c = 0; c < running_mean.size(); ++c) {
    running_mean[c] = keep * running_mean[c] + momentum * batch_mean[c];
    running_variance[c] = keep * running_variance[c] + momentum * (batch_variance[c] * unbias);
  }
}

}  // namespace simurgh::cpu
