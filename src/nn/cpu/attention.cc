#include "nn/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "nn/cpu/activation.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/dice.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/prelu.h"
#include "nn/formulas.h"

namespace simurgh::cpu {
namespace {

// Returns the number of a sample's rows.
size_t LengthOf(const Sequence& sequence, size_t sample) {
  const std::span<const float> mask = sequence.mask.row(sample);
  return static_cast<size_t>(std::ranges::find(mask, 0.0F) - mask.begin());
}

size_t DimOf(const Sequence& sequence) { return sequence.rows.columns() / sequence.mask.columns(); }

// The output of the inner layer, or its gradient.
MatrixView<float> OutputOf(Workspace& workspace, const LayerPlan& inner, size_t rows) {
  return workspace.Rows(inner.activation_column, rows, inner.output_width);
}

// The input of an inner layer, or its gradient.
MatrixView<float> InputOf(Workspace& workspace, const LayerPlan& attention, size_t inner,
                          size_t rows) {
  return inner == 0 ? workspace.Rows(attention.scratch_column, rows, attention.inner[0].input_width)
                    : OutputOf(workspace, attention.inner[inner - 1], rows);
}

bool IsLinear(const LayerPlan& attention, size_t inner) {
  return inner < attention.inner.size() &&
         attention.inner[inner].config.kind == LayerConfig::Kind::kLinear;
}

// Normalises the weights of a sample's rows.
void Softmax(std::span<float> weights) {
  if (weights.empty()) return;
  const float largest = std::ranges::max(weights);
  float sum = 0.0F;
  for (float& weight : weights) sum += weight = std::exp(weight - largest);
  for (float& weight : weights) weight /= sum;
}

// slopes: the gradients of the weights; becomes those of the values before the softmax.
void SoftmaxBackward(std::span<const float> weights, std::span<float> slopes) {
  float mean = 0.0F;
  for (size_t i = 0; i < weights.size(); ++i) mean += weights[i] * slopes[i];
  for (size_t i = 0; i < weights.size(); ++i) slopes[i] = weights[i] * (slopes[i] - mean);
}

bool HasDice(const LayerPlan& layer) {
  return std::ranges::any_of(layer.inner, &LayerPlan::has_statistics);
}

// Sets the number of rows that the statistics are of.
Status CountRows(const LayerPlan& layer, size_t rows, RowStatistics& training) {
  training.rows = rows;
  if (!training.sum || !HasDice(layer)) return absl::OkStatus();
  double count[] = {static_cast<double>(rows)};
  SIMURGH_RETURN_IF_ERROR(training.sum(count));
  training.rows = static_cast<uint64_t>(count[0]);
  return absl::OkStatus();
}

// The normalised input of a dice, from the batch's statistics, which it computes.
Status NormaliseRows(const LayerPlan& dice, MatrixView<const float> input, RowStatistics& training,
                     MatrixView<float> normalised) {
  const std::span<float> mean = dice.Mean(training.batch);
  const std::span<float> variance = dice.Variance(training.batch);
  if (training.sum) {
    return SyncBatchNormForward(input, {}, dice.config.epsilon, {training.rows, training.sum}, mean,
                                variance, normalised);
  }
  BatchNormForward(input, {}, dice.config.epsilon, mean, variance, normalised);
  return absl::OkStatus();
}

Status InnerForward(const LayerPlan& layer, size_t inner, std::span<const float> weights,
                    std::span<const float> running, RowStatistics* training, Workspace& activations,
                    size_t rows) {
  const LayerPlan& of = layer.inner[inner];
  const MatrixView<const float> input = InputOf(activations, layer, inner, rows);
  const MatrixView<float> output = OutputOf(activations, of, rows);
  switch (of.config.kind) {
    case LayerConfig::Kind::kLinear:
      return LinearForward(input, of.Weight(weights), of.Bias(weights), IsLinear(layer, inner + 1),
                           output);
    case LayerConfig::Kind::kSigmoid:
      ActivationForward<SigmoidFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kPrelu:
      PreluForward(input, of.Slope(weights), output);
      break;
    case LayerConfig::Kind::kDice: {
      const MatrixView<float> normalised =
          activations.Rows(of.scratch_column, rows, of.output_width);
      if (training != nullptr) {
        SIMURGH_RETURN_IF_ERROR(NormaliseRows(of, input, *training, normalised));
      } else {
        BatchNormPredict(input, {}, of.config.epsilon, of.Mean(running), of.Variance(running),
                         normalised);
      }
      DiceForward(input, normalised, of.Slope(weights), output);
      break;
    }
    default:
      return absl::UnimplementedError(NameOf(of.config.kind));
  }
  return absl::OkStatus();
}

Status InnerBackward(const LayerPlan& layer, size_t inner, std::span<const float> weights,
                     const RowStatistics& training, const AttentionScratch& scratch, size_t rows) {
  const LayerPlan& of = layer.inner[inner];
  const MatrixView<const float> dy = OutputOf(scratch.gradients, of, rows);
  const MatrixView<float> x = InputOf(scratch.activations, layer, inner, rows);
  const MatrixView<float> dx = InputOf(scratch.gradients, layer, inner, rows);
  switch (of.config.kind) {
    case LayerConfig::Kind::kLinear:
      return inner > 0 && IsLinear(layer, inner - 1)
                 ? LinearBackwardRelu(dy, of.Weight(weights), x, dx)
                 : LinearBackwardInput(dy, of.Weight(weights), 0.0F, dx);
    case LayerConfig::Kind::kSigmoid:
      ActivationBackward<SigmoidFormula>(OutputOf(scratch.activations, of, rows).flat(), dy.flat(),
                                         dx.flat());
      break;
    case LayerConfig::Kind::kPrelu:
      PreluBackward(x, of.Slope(weights), dy, dx);
      break;
    case LayerConfig::Kind::kDice: {
      const BatchNormStatistics statistics{of.Mean<const float>(training.batch),
                                           of.Variance<const float>(training.batch)};
      const BatchNormGroup group{training.rows, training.sum};
      return DiceBackward(x, scratch.activations.Rows(of.scratch_column, rows, of.output_width),
                          of.Slope(weights), of.config.epsilon, statistics,
                          training.sum ? &group : nullptr, dy,
                          scratch.gradients.Rows(of.scratch_column, rows, of.output_width), dx);
    }
    default:
      return absl::UnimplementedError(NameOf(of.config.kind));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<size_t> FirstRows(const Sequence& sequence) {
  std::vector<size_t> first(sequence.mask.rows() + 1, 0);
  for (size_t b = 0; b < sequence.mask.rows(); ++b) first[b + 1] = first[b] + LengthOf(sequence, b);
  return first;
}

Sequence SequenceOf(const LayerPlan& layer, MatrixView<const float> input) {
  const size_t rows = layer.places * layer.row_width;
  const size_t query = layer.query_width;
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
                        std::span<const float> running, const Sequence& sequence,
                        Workspace& activations, RowStatistics* training, MatrixView<float> output) {
  const size_t dim = layer.row_width;
  const size_t common = layer.query_width;
  const std::vector<size_t> first = FirstRows(sequence);
  const size_t rows = first.back();
  const MatrixView<float> pairs = InputOf(activations, layer, 0, rows);
  ForSamples(sequence, [&](size_t b) {
    const float* q = sequence.query.row(b).data();
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      float* x = pairs.row(row).data();
      std::copy_n(q, common, x);
      std::copy_n(k, dim, x += common);
      x += dim;
      for (size_t d = 0; d < common; ++d) {
        x[d] = q[d] - k[d];
        x[common + d] = q[d] * k[d];
      }
    }
  });
  if (rows == 0 && training != nullptr) {
    SIMURGH_RETURN_IF_ERROR(AttentionTakePartForward(layer, *training));
  } else if (training != nullptr) {
    SIMURGH_RETURN_IF_ERROR(CountRows(layer, rows, *training));
  }
  for (size_t i = 0; rows > 0 && i < layer.inner.size(); ++i) {
    SIMURGH_RETURN_IF_ERROR(InnerForward(layer, i, weights, running, training, activations, rows));
  }
  const std::span<float> scores = OutputOf(activations, layer.inner.back(), rows).flat();
  ForSamples(sequence, [&](size_t b) {
    float* sum = output.row(b).data();
    std::fill_n(sum, dim, 0.0F);
    if (layer.config.normalises) Softmax(scores.subspan(first[b], first[b + 1] - first[b]));
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      for (size_t d = 0; d < dim; ++d) sum[d] += scores[row] * k[d];
    }
  });
  return absl::OkStatus();
}

Status AttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                         const RowStatistics& training, const Sequence& sequence,
                         const AttentionScratch& scratch, MatrixView<const float> output_gradient,
                         MatrixView<float> input_gradient) {
  const size_t dim = layer.row_width;
  const size_t common = layer.query_width;
  const std::vector<size_t> first = FirstRows(sequence);
  const size_t rows = first.back();
  const std::span<const float> scores =
      OutputOf(scratch.activations, layer.inner.back(), rows).flat();
  const std::span<float> slopes = OutputOf(scratch.gradients, layer.inner.back(), rows).flat();
  ForSamples(sequence, [&](size_t b) {
    const float* dy = output_gradient.row(b).data();
    const float* k = sequence.rows.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim) {
      float sum = 0.0F;
      for (size_t d = 0; d < dim; ++d) sum += dy[d] * k[d];
      slopes[row] = sum;
    }
    const size_t length = first[b + 1] - first[b];
    if (layer.config.normalises) {
      SoftmaxBackward(scores.subspan(first[b], length), slopes.subspan(first[b], length));
    }
  });
  if (rows == 0) SIMURGH_RETURN_IF_ERROR(AttentionTakePartBackward(layer, training));
  for (size_t i = layer.inner.size(); rows > 0 && i-- > 0;) {
    SIMURGH_RETURN_IF_ERROR(InnerBackward(layer, i, weights, training, scratch, rows));
  }
  const MatrixView<float> pair_gradients = InputOf(scratch.gradients, layer, 0, rows);
  ForSamples(sequence, [&](size_t b) {
    std::ranges::fill(input_gradient.row(b), 0.0F);
    float* dq = input_gradient.row(b).data();
    float* dk = dq + common;
    const float* q = sequence.query.row(b).data();
    const float* k = sequence.rows.row(b).data();
    const float* dy = output_gradient.row(b).data();
    for (size_t row = first[b]; row < first[b + 1]; ++row, k += dim, dk += dim) {
      const float* dx = pair_gradients.row(row).data();
      const float* of_row = dx + common;
      const float* difference = of_row + dim;
      const float* product = difference + common;
      for (size_t d = 0; d < dim; ++d) dk[d] = of_row[d] + scores[row] * dy[d];
      for (size_t d = 0; d < common; ++d) {
        dq[d] += dx[d] + difference[d] + product[d] * k[d];
        dk[d] += product[d] * q[d] - difference[d];
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
  for (size_t i = layer.inner.size(); i-- > 0;) {
    const LayerPlan& of = layer.inner[i];
    const MatrixView<const float> x = InputOf(scratch.activations, layer, i, rows);
    const MatrixView<const float> dy = OutputOf(scratch.gradients, of, rows);
    if (of.config.kind == LayerConfig::Kind::kDice) {
      DiceBackwardSlope(x, scratch.activations.Rows(of.scratch_column, rows, of.output_width), dy,
                        of.Slope(weight_gradients));
    } else if (of.config.kind == LayerConfig::Kind::kPrelu) {
      PreluBackwardSlope(x, dy, of.Slope(weight_gradients));
    } else if (IsLinear(layer, i)) {
      SIMURGH_RETURN_IF_ERROR(
          LinearBackwardWeight(x, dy, of.Weight(weight_gradients), of.Bias(weight_gradients)));
    }
  }
  return absl::OkStatus();
}

Status AttentionTakePartForward(const LayerPlan& layer, RowStatistics& training) {
  SIMURGH_RETURN_IF_ERROR(CountRows(layer, 0, training));
  if (!training.sum) return absl::OkStatus();
  // Ranks sum even if none has a row, which a device among them does not know.
  for (const LayerPlan& inner : layer.inner) {
    if (!inner.has_statistics) continue;
    SIMURGH_RETURN_IF_ERROR(NormaliseRows(inner, {}, training, {}));
  }
  return absl::OkStatus();
}

Status AttentionTakePartBackward(const LayerPlan& layer, const RowStatistics& training) {
  if (!training.sum) return absl::OkStatus();
  for (size_t i = layer.inner.size(); i-- > 0;) {
    if (!layer.inner[i].has_statistics) continue;
    std::vector<double> sums(2 * layer.inner[i].output_width);
    SIMURGH_RETURN_IF_ERROR(training.sum(sums));
  }
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
