#include "nn/cpu/layers.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {

void BiasGradient(MatrixView<const float> output_gradient, std::span<float> bias_gradient) {
  // Parts that stay in the cache. The order of sums depends only on the number of rows.
  constexpr size_t kPartRows = 256;
  const size_t rows = output_gradient.rows();
  const size_t columns = bias_gradient.size();
  const size_t parts = (rows + kPartRows - 1) / kPartRows;
  std::vector<double> sums_of_parts(parts * columns);
  const auto sum_part = [&](size_t part) {
    const MatrixView<const float> x =
        output_gradient.Rows(part * kPartRows, std::min(kPartRows, rows - part * kPartRows));
    for (size_t first = 0; first < columns; first += kTileColumns) {
      const size_t width = std::min(kTileColumns, columns - first);
      SumColumns(
          x.rows(), width, [=](size_t row, size_t column) { return x(row, first + column); },
          sums_of_parts.data() + part * columns + first);
    }
  };
  if (rows * columns < kPartElements) {
    for (size_t part = 0; part < parts; ++part) sum_part(part);
  } else {
    RunParts(parts, sum_part);
  }
  for (size_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (size_t part = 0; part < parts; ++part) sum += sums_of_parts[part * columns + column];
    bias_gradient[column] = static_cast<float>(sum);
  }
}

Status LinearForward(MatrixView<const float> input, MatrixView<const float> weight,
                     std::span<const float> bias, bool relu, MatrixView<float> output) {
  const auto add_bias = [=](MatrixView<float> piece, size_t /*row*/, size_t column) {
    const float* b = bias.data() + column;
    for (size_t row = 0; row < piece.rows(); ++row) {
      float* y = piece.row(row).data();
      if (relu) {
        for (size_t c = 0; c < piece.columns(); ++c) y[c] = ReluFormula::Value(y[c] + b[c]);
      } else {
        for (size_t c = 0; c < piece.columns(); ++c) y[c] += b[c];
      }
    }
  };
  return Multiply({input}, {weight}, input.columns(), 0.0F, output, add_bias);
}

Status LinearBackwardWeight(MatrixView<const float> input, MatrixView<const float> output_gradient,
                            MatrixView<float> weight_gradient, std::span<float> bias_gradient) {
  BiasGradient(output_gradient, bias_gradient);
  return Multiply({input, true}, {output_gradient}, input.rows(), 0.0F, weight_gradient);
}

Status LinearBackwardInput(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                           float beta, MatrixView<float> input_gradient, PieceWork finish) {
  return Multiply({output_gradient}, {weight, true}, output_gradient.columns(), beta,
                  input_gradient, finish);
}

Status LinearBackwardRelu(MatrixView<const float> output_gradient, MatrixView<const float> weight,
                          MatrixView<const float> input, MatrixView<float> input_gradient) {
  const auto gate = [=](MatrixView<float> piece, size_t first, size_t column) {
    for (size_t row = 0; row < piece.rows(); ++row) {
      const float* x = input.row(first + row).data() + column;
      float* dx = piece.row(row).data();
      for (size_t c = 0; c < piece.columns(); ++c) dx[c] = ReluFormula::Gradient(x[c], dx[c]);
    }
  };
  return LinearBackwardInput(output_gradient, weight, 0.0F, input_gradient, gate);
}

namespace {

bool IsFull(const CrossWeights& weights) { return weights.down.columns() == 0; }

}  // namespace

Status CrossForward(MatrixView<const float> origin, MatrixView<const float> input,
                    const CrossWeights& weights, const CrossProducts& products,
                    MatrixView<float> output) {
  if (IsFull(weights)) {
    SIMURGH_RETURN_IF_ERROR(
        LinearForward(input, weights.full, weights.bias, /*relu=*/false, products.outer));
  } else {
    SIMURGH_RETURN_IF_ERROR(
        Multiply({input}, {weights.down}, input.columns(), 0.0F, products.inner));
    SIMURGH_RETURN_IF_ERROR(
        LinearForward(products.inner, weights.up, weights.bias, /*relu=*/false, products.outer));
  }
  for (size_t row = 0; row < output.rows(); ++row) {
    const float* x0 = origin.row(row).data();
    const float* x = input.row(row).data();
    const float* u = products.outer.row(row).data();
    float* y = output.row(row).data();
    for (size_t c = 0; c < output.columns(); ++c) y[c] = x0[c] * u[c] + x[c];
  }
  return absl::OkStatus();
}

Status CrossBackwardWeights(MatrixView<const float> origin, MatrixView<const float> input,
                            const CrossWeights& weights, const CrossProducts& products,
                            MatrixView<const float> output_gradient,
                            const CrossProducts& product_gradients,
                            const CrossWeightGradients& weight_gradients, bool add_to_origin,
                            MatrixView<float> origin_gradient) {
  for (size_t row = 0; row < origin.rows(); ++row) {
    if (!add_to_origin) std::ranges::fill(origin_gradient.row(row), 0.0F);
    const float* x0 = origin.row(row).data();
    const float* u = products.outer.row(row).data();
    const float* dy = output_gradient.row(row).data();
    float* du = product_gradients.outer.row(row).data();
    float* dx0 = origin_gradient.row(row).data();
    for (size_t c = 0; c < origin.columns(); ++c) {
      du[c] = dy[c] * x0[c];
      dx0[c] += dy[c] * u[c];
    }
  }
  if (IsFull(weights)) {
    return LinearBackwardWeight(input, product_gradients.outer, weight_gradients.full,
                                weight_gradients.bias);
  }
  SIMURGH_RETURN_IF_ERROR(LinearBackwardWeight(products.inner, product_gradients.outer,
                                               weight_gradients.up, weight_gradients.bias));
  SIMURGH_RETURN_IF_ERROR(
      LinearBackwardInput(product_gradients.outer, weights.up, 0.0F, product_gradients.inner));
  return Multiply({input, true}, {product_gradients.inner}, input.rows(), 0.0F,
                  weight_gradients.down);
}

Status CrossBackwardInput(const CrossWeights& weights, MatrixView<const float> output_gradient,
                          const CrossProducts& product_gradients,
                          MatrixView<float> input_gradient) {
  for (size_t row = 0; row < input_gradient.rows(); ++row) {
    std::ranges::copy(output_gradient.row(row), input_gradient.row(row).begin());
  }
  const bool full = IsFull(weights);
  const MatrixView<const float> gradient = full ? product_gradients.outer : product_gradients.inner;
  return Multiply({gradient}, {full ? weights.full : weights.down, true}, gradient.columns(), 1.0F,
                  input_gradient);
}

namespace {

// Calls body(first, columns) for every tile.
template <typename Body>
void ForEachTile(size_t columns, const Body& body) {
  for (size_t first = 0; first < columns; first += kTileColumns) {
    body(first, std::min(kTileColumns, columns - first));
  }
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
    factor[c] = affine.scale[first + c] * InverseDeviation(variance[first + c], epsilon);
    shift[c] = affine.shift[first + c];
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
  const auto rows = static_cast<double>(group.samples);
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
  for (size_t c = 0; c < columns; ++c) {
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
      factor[c] = scale[first + c] * inverse;
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

double Loss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
            std::span<const float> labels, std::span<float> predictions, uint64_t gradient_divisor,
            std::span<float> gradient) {
  const auto divisor = static_cast<double>(gradient_divisor);
  const size_t samples = outputs.size() / tasks.size();
  const std::span<const float> weights = labels.subspan(outputs.size());
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const LossFormula formula = FormulaOf(tasks[i % tasks.size()]);
    const double z = outputs[i];
    const double prediction = PredictionOf(formula.kind, z);
    const double weight = weights.empty() ? 1.0 : double{weights[i / tasks.size()]};
    const LossPoint point = formula(z, labels[i], prediction, weight);
    sum += point.loss;
    predictions[i] = static_cast<float>(prediction);
    gradient[i] = static_cast<float>(point.slope / divisor);
  }
  return sum / static_cast<double>(samples);
}

}  // namespace simurgh::cpu
