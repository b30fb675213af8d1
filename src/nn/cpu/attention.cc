#include "nn/cpu/attention.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/linear.h"

namespace simurgh::cpu {
namespace {

// Returns the number of a sample's rows.
size_t LengthOf(const Sequence& sequence, size_t sample) {
  const std::span<const float> mask = sequence.mask.row(sample);
  return static_cast<size_t>(std::ranges::find(mask, 0.0F) - mask.begin());
}

size_t DimOf(const Sequence& sequence) { return sequence.rows.columns() / sequence.mask.columns(); }

// Calls work(sample) for all samples, on the compute threads.
template <typename Work>
void ForSamples(const Sequence& sequence, const Work& work) {
  ForEachPart(sequence.rows.rows(), MinRows(sequence.rows.columns()),
              [&](size_t first, size_t end) {
                for (size_t sample = first; sample < end; ++sample) work(sample);
              });
}

// Returns the place of each sample's first row among those of the batch, then their number.
std::vector<size_t> FirstRows(const Sequence& sequence) {
  std::vector<size_t> first(sequence.mask.rows() + 1, 0);
  for (size_t b = 0; b < sequence.mask.rows(); ++b) first[b + 1] = first[b] + LengthOf(sequence, b);
  return first;
}

// Returns the input of a layer of the scorer, or its gradient.
MatrixView<float> ScorerLayerInput(Workspace& workspace, const LayerPlan& attention, size_t layer,
                                   size_t rows) {
  return layer == 0 ? workspace.ScorerInput(attention, rows)
                    : workspace.ScorerOutput(attention.scorer[layer - 1], rows);
}

}  // namespace

Sequence SequenceOf(const LayerPlan& layer, MatrixView<const float> input) {
  const size_t rows = layer.places * layer.output_width;
  const size_t query = input.columns() - rows - layer.places;
  return {input.Columns(0, query), input.Columns(query, rows),
          input.Columns(query + rows, layer.places)};
}

void MeanForward(const Sequence& sequence, MatrixView<float> output) {
  const size_t dim = DimOf(sequence);
  ForSamples(sequence, [&](size_t b) {
    const std::span<float> mean = output.row(b);
    std::ranges::fill(mean, 0.0F);
    const size_t length = LengthOf(sequence, b);
    if (length == 0) return;
    const float* row = sequence.rows.row(b).data();
    for (size_t l = 0; l < length; ++l, row += dim) {
      for (size_t d = 0; d < dim; ++d) mean[d] += row[d];
    }
    for (float& value : mean) value /= static_cast<float>(length);
  });
}

void MeanBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient) {
  const size_t dim = DimOf(sequence);
  ForSamples(sequence, [&](size_t b) {
    const std::span<float> gradient = input_gradient.row(b);
    std::ranges::fill(gradient, 0.0F);
    const size_t length = LengthOf(sequence, b);
    const float* dy = output_gradient.row(b).data();
    for (size_t i = 0; i < length * dim; ++i) {
      gradient[i] = dy[i % dim] / static_cast<float>(length);
    }
  });
}

void LastForward(const Sequence& sequence, MatrixView<float> output) {
  const size_t dim = DimOf(sequence);
  ForSamples(sequence, [&](size_t b) {
    const size_t length = LengthOf(sequence, b);
    if (length == 0) {
      std::ranges::fill(output.row(b), 0.0F);
    } else {
      std::ranges::copy(sequence.rows.row(b).subspan((length - 1) * dim, dim),
                        output.row(b).begin());
    }
  });
}

void LastBackward(const Sequence& sequence, MatrixView<const float> output_gradient,
                  MatrixView<float> input_gradient) {
  const size_t dim = DimOf(sequence);
  ForSamples(sequence, [&](size_t b) {
    const std::span<float> gradient = input_gradient.row(b);
    std::ranges::fill(gradient, 0.0F);
    const size_t length = LengthOf(sequence, b);
    if (length == 0) return;
    std::ranges::copy(output_gradient.row(b), gradient.subspan((length - 1) * dim, dim).begin());
  });
}

Status AttentionForward(const LayerPlan& layer, std::span<const float> weights,
                        const Sequence& sequence, Workspace& activations,
                        MatrixView<float> output) {
  const size_t dim = layer.output_width;
  const std::vector<size_t> first = FirstRows(sequence);
  const MatrixView<float> pairs = activations.ScorerInput(layer, first.back());
  ForSamples(sequence, [&](size_t b) {
    const float* q = sequence.query.row(b).data();
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      float* x = pairs.row(row).data();
      for (size_t d = 0; d < dim; ++d) {
        x[d] = q[d];
        x[dim + d] = k[d];
        x[2 * dim + d] = q[d] - k[d];
        x[3 * dim + d] = q[d] * k[d];
      }
    }
  });
  MatrixView<const float> x = pairs;
  for (const LayerPlan& linear : layer.scorer) {
    const MatrixView<float> y = activations.ScorerOutput(linear, first.back());
    if (y.rows() == 0) break;
    const bool relu = &linear != &layer.scorer.back();
    SIMURGH_RETURN_IF_ERROR(
        LinearForward(x, linear.Weight(weights), linear.Bias(weights), relu, y));
    x = y;
  }
  const MatrixView<float> scores = activations.ScorerOutput(layer.scorer.back(), first.back());
  ForSamples(sequence, [&](size_t b) {
    float* sum = output.row(b).data();
    std::fill_n(sum, dim, 0.0F);
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      for (size_t d = 0; d < dim; ++d) sum[d] += scores(row, 0) * k[d];
    }
  });
  return absl::OkStatus();
}

Status AttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                         const Sequence& sequence, const AttentionScratch& scratch,
                         MatrixView<const float> output_gradient,
                         MatrixView<float> input_gradient) {
  const size_t dim = layer.output_width;
  const std::vector<size_t> first = FirstRows(sequence);
  const size_t rows = first.back();
  const MatrixView<float> score_gradients =
      scratch.gradients.ScorerOutput(layer.scorer.back(), rows);
  ForSamples(sequence, [&](size_t b) {
    const float* dy = output_gradient.row(b).data();
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      float sum = 0.0F;
      for (size_t d = 0; d < dim; ++d) sum += dy[d] * k[d];
      score_gradients(row, 0) = sum;
    }
  });
  for (size_t i = layer.scorer.size(); rows > 0 && i-- > 0;) {
    const LayerPlan& linear = layer.scorer[i];
    const MatrixView<const float> dy = scratch.gradients.ScorerOutput(linear, rows);
    const MatrixView<float> x = ScorerLayerInput(scratch.activations, layer, i, rows);
    const MatrixView<float> dx = ScorerLayerInput(scratch.gradients, layer, i, rows);
    const MatrixView<const float> weight = linear.Weight(weights);
    SIMURGH_RETURN_IF_ERROR(i > 0 ? LinearBackwardRelu(dy, weight, x, dx)
                                  : LinearBackwardInput(dy, weight, 0.0F, dx));
  }
  const MatrixView<float> pair_gradients = scratch.gradients.ScorerInput(layer, rows);
  const MatrixView<float> scores = scratch.activations.ScorerOutput(layer.scorer.back(), rows);
  ForSamples(sequence, [&](size_t b) {
    std::ranges::fill(input_gradient.row(b), 0.0F);
    float* dq = input_gradient.row(b).data();
    float* dk = dq + dim;
    const float* q = sequence.query.row(b).data();
    const float* k = sequence.rows.row(b).data();
    const float* dy = output_gradient.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim, dk += dim) {
      const float* dx = pair_gradients.row(row).data();
      for (size_t d = 0; d < dim; ++d) {
        const float difference = dx[2 * dim + d];
        const float product = dx[3 * dim + d];
        dq[d] += dx[d] + difference + product * k[d];
        dk[d] = dx[dim + d] - difference + product * q[d] + scores(row, 0) * dy[d];
      }
    }
  });
  return absl::OkStatus();
}

Status AttentionBackwardWeights(const LayerPlan& layer, const Sequence& sequence,
                                const AttentionScratch& scratch,
                                std::span<float> weight_gradients) {
  const size_t rows = FirstRows(sequence).back();
  if (rows == 0) {
    std::ranges::fill(weight_gradients.subspan(layer.parameter_offset, layer.parameter_count),
                      0.0F);
    return absl::OkStatus();
  }
  for (size_t i = layer.scorer.size(); i-- > 0;) {
    const LayerPlan& linear = layer.scorer[i];
    SIMURGH_RETURN_IF_ERROR(
        LinearBackwardWeight(ScorerLayerInput(scratch.activations, layer, i, rows),
                             scratch.gradients.ScorerOutput(linear, rows),
                             linear.Weight(weight_gradients), linear.Bias(weight_gradients)));
  }
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
