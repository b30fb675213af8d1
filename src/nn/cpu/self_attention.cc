#include "nn/cpu/self_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/layer_norm.h"
#include "nn/cpu/linear.h"

namespace simurgh::cpu {
namespace {

using Inner = SelfAttentionLayers;

// Matrices (rows, columns) of one pass, in the workspace of activations or of their gradients.
class Matrices {
 public:
  Matrices(const LayerPlan& layer, Workspace& workspace, size_t rows)
      : layer_(layer), workspace_(workspace), rows_(rows) {}

  // The input of the attention.
  MatrixView<float> input() const { return Scratch(0, layer_.row_width); }
  // Means of values, by the attention's weights.
  MatrixView<float> context() const { return Scratch(layer_.row_width, layer_.row_width); }
  // The attention's weights of the places, for each head.
  MatrixView<float> weights() const {
    return Scratch(2 * layer_.row_width, layer_.config.width * layer_.places);
  }
  // Mean and inverse deviation of each row that a layer norm reads.
  MatrixView<float> statistics(Inner norm) const {
    return workspace_.Rows(layer_.inner[norm].scratch_column, rows_, 2);
  }
  // kOut and kLinear2: the sum with the block's input.
  MatrixView<float> output(Inner inner) const {
    const LayerPlan& of = layer_.inner[inner];
    return workspace_.Rows(of.activation_column, rows_, of.output_width);
  }

 private:
  MatrixView<float> Scratch(size_t column, size_t width) const {
    return workspace_.Rows(layer_.scratch_column + layer_.places * column, rows_, width);
  }

  const LayerPlan& layer_;
  Workspace& workspace_;
  const size_t rows_;
};

template <typename Work>
void ForRows(MatrixView<const float> matrix, const Work& work) {
  ForEachPart(matrix.rows(), MinRows(matrix.columns()), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) work(row);
  });
}

void AddTo(MatrixView<const float> terms, MatrixView<float> sums) {
  ForRows(terms, [=](size_t row) {
    const float* x = terms.row(row).data();
    float* y = sums.row(row).data();
    for (size_t c = 0; c < terms.columns(); ++c) y[c] += x[c];
  });
}

// Queries, keys and values of a head, in the rows of one sample. begin: the first row.
struct Head {
  MatrixView<float> queries;
  MatrixView<float> keys;
  MatrixView<float> values;
};

Head HeadOf(const LayerPlan& layer, MatrixView<float> projections, size_t begin, size_t length,
            size_t head) {
  const size_t dim = layer.row_width / layer.config.width;
  const auto part = [&](size_t index) {
    return projections.Rows(begin, length).Columns(index * layer.row_width + head * dim, dim);
  };
  return {part(0), part(1), part(2)};
}

float Dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0.0F;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void AddScaled(float factor, std::span<const float> from, std::span<float> to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += factor * from[i];
}

// Calls work(first row, rows, head) for each sample and head.
template <typename Work>
void ForHeads(const LayerPlan& layer, const std::vector<size_t>& first, const Work& work) {
  const size_t columns = layer.places * layer.row_width;
  ForEachPart(first.size() - 1, MinRows(columns * layer.places), [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) {
      for (size_t h = 0; h < layer.config.width; ++h) work(first[b], first[b + 1] - first[b], h);
    }
  });
}

// Returns the number of rows that row i of a sample reads.
size_t Reach(const LayerPlan& layer, size_t i, size_t length) {
  return layer.config.causal ? i + 1 : length;
}

float ScoreFactor(const LayerPlan& layer) {
  return 1.0F / std::sqrt(static_cast<float>(layer.row_width / layer.config.width));
}

void AttentionOfHeads(const LayerPlan& layer, const std::vector<size_t>& first,
                      const Matrices& pass) {
  const float factor = ScoreFactor(layer);
  const size_t dim = layer.row_width / layer.config.width;
  ForHeads(layer, first, [&](size_t begin, size_t length, size_t head) {
    const auto [queries, keys, values] =
        HeadOf(layer, pass.output(Inner::kIn), begin, length, head);
    for (size_t i = 0; i < length; ++i) {
      const std::span<float> weights =
          pass.weights().row(begin + i).subspan(head * layer.places, Reach(layer, i, length));
      for (size_t j = 0; j < weights.size(); ++j) {
        weights[j] = factor * Dot(queries.row(i), keys.row(j));
      }
      const float largest = std::ranges::max(weights);
      float sum = 0.0F;
      for (float& weight : weights) sum += weight = std::exp(weight - largest);
      const std::span<float> context = pass.context().row(begin + i).subspan(head * dim, dim);
      std::ranges::fill(context, 0.0F);
      for (size_t j = 0; j < weights.size(); ++j) {
        weights[j] /= sum;
        AddScaled(weights[j], values.row(j), context);
      }
    }
  });
}

void AttentionOfHeadsBackward(const LayerPlan& layer, const std::vector<size_t>& first,
                              const Matrices& pass, const Matrices& gradients) {
  const float factor = ScoreFactor(layer);
  const size_t dim = layer.row_width / layer.config.width;
  std::ranges::fill(gradients.output(Inner::kIn).flat(), 0.0F);
  ForHeads(layer, first, [&](size_t begin, size_t length, size_t head) {
    const Head of = HeadOf(layer, pass.output(Inner::kIn), begin, length, head);
    const Head to = HeadOf(layer, gradients.output(Inner::kIn), begin, length, head);
    for (size_t i = 0; i < length; ++i) {
      const size_t reach = Reach(layer, i, length);
      const auto weights = pass.weights().row(begin + i).subspan(head * layer.places, reach);
      const auto slopes = gradients.weights().row(begin + i).subspan(head * layer.places, reach);
      const auto dy = gradients.context().row(begin + i).subspan(head * dim, dim);
      float mean = 0.0F;
      for (size_t j = 0; j < reach; ++j) {
        slopes[j] = Dot(dy, of.values.row(j));
        mean += weights[j] * slopes[j];
        AddScaled(weights[j], dy, to.values.row(j));
      }
      for (size_t j = 0; j < reach; ++j) {
        const float slope = factor * weights[j] * (slopes[j] - mean);
        AddScaled(slope, of.keys.row(j), to.queries.row(i));
        AddScaled(slope, of.queries.row(i), to.keys.row(j));
      }
    }
  });
}

}  // namespace

Status SelfAttentionForward(const LayerPlan& layer, std::span<const float> weights,
                            const Sequence& sequence, Workspace& activations,
                            MatrixView<float> output) {
  const std::vector<size_t> first = FirstRows(sequence);
  const size_t dim = layer.row_width;
  const Matrices pass(layer, activations, first.back());
  const auto norm = [&](Inner inner, Inner input) {
    const LayerPlan& of = layer.inner[inner];
    LayerNormForward(pass.output(input), of.Scale(weights), of.Shift(weights), of.config.epsilon,
                     pass.statistics(inner), pass.output(inner));
  };
  const auto linear = [&](Inner inner, MatrixView<const float> input, bool relu) {
    const LayerPlan& of = layer.inner[inner];
    return LinearForward(input, of.Weight(weights), of.Bias(weights), relu, pass.output(inner));
  };
  if (first.back() > 0) {
    const float* places =
        layer.config.positions ? weights.data() + layer.parameter_offset : nullptr;
    ForSamples(sequence, [&](size_t b) {
      const float* row = sequence.rows.row(b).data();
      const std::span<float> x(pass.input().data() + first[b] * dim,
                               (first[b + 1] - first[b]) * dim);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = row[i] + (places == nullptr ? 0.0F : places[i]);
      }
    });
    SIMURGH_RETURN_IF_ERROR(linear(Inner::kIn, pass.input(), false));
    AttentionOfHeads(layer, first, pass);
    SIMURGH_RETURN_IF_ERROR(linear(Inner::kOut, pass.context(), false));
    AddTo(pass.input(), pass.output(Inner::kOut));
    norm(Inner::kNorm1, Inner::kOut);
    SIMURGH_RETURN_IF_ERROR(linear(Inner::kLinear1, pass.output(Inner::kNorm1), true));
    SIMURGH_RETURN_IF_ERROR(linear(Inner::kLinear2, pass.output(Inner::kLinear1), false));
    AddTo(pass.output(Inner::kNorm1), pass.output(Inner::kLinear2));
    norm(Inner::kNorm2, Inner::kLinear2);
  }
  ForSamples(sequence, [&](size_t b) {
    const std::span<float> y = output.row(b);
    const size_t used = (first[b + 1] - first[b]) * dim;
    std::copy_n(pass.output(Inner::kNorm2).data() + first[b] * dim, used, y.data());
    std::ranges::fill(y.subspan(used), 0.0F);
  });
  return absl::OkStatus();
}

Status SelfAttentionBackward(const LayerPlan& layer, std::span<const float> weights,
                             const Sequence& sequence, const AttentionScratch& scratch,
                             MatrixView<const float> output_gradient,
                             MatrixView<float> input_gradient) {
  const std::vector<size_t> first = FirstRows(sequence);
  const size_t dim = layer.row_width;
  const Matrices pass(layer, scratch.activations, first.back());
  const Matrices gradients(layer, scratch.gradients, first.back());
  const auto norm = [&](Inner inner, Inner input) {
    LayerNormBackward(pass.output(input), layer.inner[inner].Scale(weights), pass.statistics(inner),
                      gradients.output(inner), gradients.output(input));
  };
  const auto weight_of = [&](Inner inner) { return layer.inner[inner].Weight(weights); };
  if (first.back() > 0) {
    ForSamples(sequence, [&](size_t b) {
      std::copy_n(output_gradient.row(b).data(), (first[b + 1] - first[b]) * dim,
                  gradients.output(Inner::kNorm2).data() + first[b] * dim);
    });
    norm(Inner::kNorm2, Inner::kLinear2);
    SIMURGH_RETURN_IF_ERROR(
        LinearBackwardRelu(gradients.output(Inner::kLinear2), weight_of(Inner::kLinear2),
                           pass.output(Inner::kLinear1), gradients.output(Inner::kLinear1)));
    std::ranges::copy(gradients.output(Inner::kLinear2).flat(),
                      gradients.output(Inner::kNorm1).data());
    SIMURGH_RETURN_IF_ERROR(LinearBackwardInput(gradients.output(Inner::kLinear1),
                                                weight_of(Inner::kLinear1), 1.0F,
                                                gradients.output(Inner::kNorm1)));
    norm(Inner::kNorm1, Inner::kOut);
    SIMURGH_RETURN_IF_ERROR(LinearBackwardInput(gradients.output(Inner::kOut),
                                                weight_of(Inner::kOut), 0.0F, gradients.context()));
    AttentionOfHeadsBackward(layer, first, pass, gradients);
    std::ranges::copy(gradients.output(Inner::kOut).flat(), gradients.input().data());
    SIMURGH_RETURN_IF_ERROR(LinearBackwardInput(gradients.output(Inner::kIn), weight_of(Inner::kIn),
                                                1.0F, gradients.input()));
  }
  ForSamples(sequence, [&](size_t b) {
    const std::span<float> dx = input_gradient.row(b);
    const size_t used = (first[b + 1] - first[b]) * dim;
    std::copy_n(gradients.input().data() + first[b] * dim, used, dx.data());
    std::ranges::fill(dx.subspan(used), 0.0F);
  });
  return absl::OkStatus();
}

Status SelfAttentionBackwardWeights(const LayerPlan& layer, const Sequence& sequence,
                                    const AttentionScratch& scratch,
                                    std::span<float> weight_gradients) {
  const std::vector<size_t> first = FirstRows(sequence);
  const Matrices pass(layer, scratch.activations, first.back());
  const Matrices gradients(layer, scratch.gradients, first.back());
  if (first.back() == 0) {
    std::ranges::fill(weight_gradients.subspan(layer.parameter_offset, layer.parameter_count),
                      0.0F);
    return absl::OkStatus();
  }
  const auto norm = [&](Inner inner, Inner input) {
    const LayerPlan& of = layer.inner[inner];
    LayerNormBackwardWeights(pass.output(input), pass.statistics(inner), gradients.output(inner),
                             of.Scale(weight_gradients), of.Shift(weight_gradients));
  };
  const auto linear = [&](Inner inner, MatrixView<const float> input) {
    const LayerPlan& of = layer.inner[inner];
    return LinearBackwardWeight(input, gradients.output(inner), of.Weight(weight_gradients),
                                of.Bias(weight_gradients));
  };
  SIMURGH_RETURN_IF_ERROR(linear(Inner::kIn, pass.input()));
  SIMURGH_RETURN_IF_ERROR(linear(Inner::kOut, pass.context()));
  SIMURGH_RETURN_IF_ERROR(linear(Inner::kLinear1, pass.output(Inner::kNorm1)));
  SIMURGH_RETURN_IF_ERROR(linear(Inner::kLinear2, pass.output(Inner::kLinear1)));
  norm(Inner::kNorm1, Inner::kOut);
  norm(Inner::kNorm2, Inner::kLinear2);
  if (!layer.config.positions) return absl::OkStatus();
  const size_t dim = layer.row_width;
  RunParts(layer.places, [&](size_t place) {
    std::vector<double> sums(dim, 0.0);
    for (size_t b = 0; b + 1 < first.size(); ++b) {
      if (place >= first[b + 1] - first[b]) continue;
      const float* dx = gradients.input().data() + (first[b] + place) * dim;
      for (size_t d = 0; d < dim; ++d) sums[d] += static_cast<double>(dx[d]);
    }
    float* const to = weight_gradients.data() + layer.parameter_offset + place * dim;
    for (size_t d = 0; d < dim; ++d) to[d] = static_cast<float>(sums[d]);
  });
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
