#include "nn/cpu/predict_pass.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/cpu/activation.h"
#include "nn/cpu/attention.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/bilinear.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/cross.h"
#include "nn/cpu/dice.h"
#include "nn/cpu/interaction.h"
#include "nn/cpu/l2_norm.h"
#include "nn/cpu/layer_norm.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/matmul.h"
#include "nn/cpu/pieces.h"
#include "nn/cpu/prelu.h"
#include "nn/cpu/self_attention.h"

namespace simurgh::cpu {
namespace {

// Copies an input's columns of one sample, which begin at `from`, into the row of the tower.
void CopyBlock(const TowerInput& input, const float* from, std::span<float> to) {
  const size_t dim = input.width / input.places;
  for (size_t place = 0; place < input.places; ++place) {
    std::copy_n(from + place * dim, dim, to.data() + input.column + place * input.stride);
  }
}

void CopyColumns(const TowerInput& input, MatrixView<const float> from, MatrixView<float> to) {
  ForEachPart(from.rows(), MinRows(from.columns()), [=, &input](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) CopyBlock(input, from.row(row).data(), to.row(row));
  });
}

// Decodes whole rows at once; of others the columns, row by row, which stays in the cache.
void DecodeColumns(const NetworkInputs& inputs, const TowerInput& input, MatrixView<float> to) {
  const VectorCodec& codec = *inputs.codec;
  const size_t bytes = codec.row_bytes();
  ForEachPart(to.rows(), MinRows(codec.columns()), [&](size_t first, size_t end) {
    if (input.width == codec.columns() && input.places == 1) {
      codec.Decode(inputs.encoded.subspan(first * bytes, (end - first) * bytes), /*factor=*/1,
                   to.Rows(first, end - first).Columns(input.column, input.width));
      return;
    }
    std::vector<float> decoded(codec.columns());
    for (size_t row = first; row < end; ++row) {
      codec.Decode(inputs.encoded.subspan(row * bytes, bytes), /*factor=*/1,
                   {decoded.data(), 1, decoded.size()});
      CopyBlock(input, decoded.data() + input.source_column, to.row(row));
    }
  });
}

// Copies a block of a tower's input to its columns there.
void GatherBlock(const PredictPass& pass, const NetworkInputs& inputs, const TowerInput& input,
                 MatrixView<float> to) {
  switch (input.source) {
    case TowerInput::Source::kDense:
      return CopyColumns(input, inputs.dense.Columns(input.source_column, input.width), to);
    case TowerInput::Source::kEmbeddings:
      if (inputs.codec != nullptr) return DecodeColumns(inputs, input, to);
      return CopyColumns(input, inputs.embeddings.Columns(input.source_column, input.width), to);
    case TowerInput::Source::kTower:
      return CopyColumns(input, pass.activations.Output(pass.plan.towers[input.tower].last()), to);
  }
}

}  // namespace

size_t InteractionScratchSize(const ModelPlan& plan) {
  size_t size = 0;
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kDot) continue;
      const size_t dim = layer.config.width;
      size = std::max(size, DotScratchSize(layer.input_width / dim, dim));
    }
  }
  return size;
}

void GatherInput(const PredictPass& pass, const NetworkInputs& inputs, const TowerPlan& tower) {
  const MatrixView<float> to = pass.activations.Input(tower);
  for (const TowerInput& input : tower.inputs) GatherBlock(pass, inputs, input, to);
}

bool HasRelu(const TowerPlan& tower, size_t layer) {
  return tower.layers[layer].config.kind == LayerConfig::Kind::kLinear &&
         layer + 1 < tower.layers.size() &&
         tower.layers[layer + 1].config.kind == LayerConfig::Kind::kRelu;
}

Status PredictLayer(const PredictPass& pass, const TowerPlan& tower, size_t index,
                    MatrixView<const float> input) {
  const bool relu = HasRelu(tower, index);
  const LayerPlan& layer = tower.layers[index];
  const std::span<const float> weights = pass.weights;
  Workspace& activations = pass.activations;
  const MatrixView<float> output = activations.Output(tower.layers[index + (relu ? 1 : 0)]);
  switch (layer.config.kind) {
    case LayerConfig::Kind::kLinear:
      return LinearForward(input, layer.Weight(weights), layer.Bias(weights), relu, output);
    case LayerConfig::Kind::kBatchNorm:
      BatchNormPredict(input, {layer.Scale(weights), layer.Shift(weights)}, layer.config.epsilon,
                       layer.Mean(pass.statistics), layer.Variance(pass.statistics), output);
      break;
    case LayerConfig::Kind::kRelu:
      ActivationForward<ReluFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kGelu:
      ActivationForward<GeluFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kSigmoid:
      ActivationForward<SigmoidFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kDropout:
      if (!layer.is_in_place) std::ranges::copy(input.flat(), output.data());
      break;
    case LayerConfig::Kind::kSilu:
      ActivationForward<SiluFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kTanh:
      ActivationForward<TanhFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kGate:
      ActivationForward<GateFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kPrelu:
      PreluForward(input, layer.Slope(weights), output);
      break;
    case LayerConfig::Kind::kDice: {
      const MatrixView<float> normalised = activations.Scratch(layer, layer.output_width);
      BatchNormPredict(input, {}, layer.config.epsilon, layer.Mean(pass.statistics),
                       layer.Variance(pass.statistics), normalised);
      DiceForward(input, normalised, layer.Slope(weights), output);
      break;
    }
    case LayerConfig::Kind::kLayerNorm:
      LayerNormForward(input, layer.Scale(weights), layer.Shift(weights), layer.config.epsilon,
                       activations.Scratch(layer, 2), output);
      break;
    case LayerConfig::Kind::kL2Norm:
      L2NormForward(input, output);
      break;
    case LayerConfig::Kind::kProduct:
      ProductForward(input, output);
      break;
    case LayerConfig::Kind::kBilinear:
      return BilinearForward(input, layer.Heads(weights),
                             activations.Scratch(layer, layer.input_width / 2), output);
    case LayerConfig::Kind::kJoint:
      JointForward(input, output);
      break;
    case LayerConfig::Kind::kDot:
      DotForward(input, layer.config.width, pass.scratch, output);
      break;
    case LayerConfig::Kind::kCross:
      return CrossForward(activations.Input(tower), input, CrossPartsOf(layer, weights),
                          {activations.InnerProduct(layer), activations.OuterProduct(layer)},
                          output);
    case LayerConfig::Kind::kFm:
      FmForward(input, layer.config.width, output);
      break;
    case LayerConfig::Kind::kSum:
      SumForward(input, output);
      break;
    case LayerConfig::Kind::kMean:
      MeanForward(SequenceOf(layer, input), output);
      break;
    case LayerConfig::Kind::kLast:
      LastForward(SequenceOf(layer, input), output);
      break;
    case LayerConfig::Kind::kAttention:
      return AttentionForward(layer, weights, pass.statistics, SequenceOf(layer, input),
                              activations, /*training=*/nullptr, output);
    case LayerConfig::Kind::kSelfAttention:
      return SelfAttentionForward(layer, weights, SequenceOf(layer, input), activations, output);
    case LayerConfig::Kind::kSoftmax:
      SoftmaxForward(input, output);
      break;
    case LayerConfig::Kind::kMix:
      MixForward(input, layer.config.width, output);
      break;
  }
  return absl::OkStatus();
}

namespace {

// Columns in which the rows differ. Empty if they are more than half of all, or if there are few
// rows.
std::vector<ColumnRange> DifferingColumns(MatrixView<const float> rows) {
  constexpr size_t kFewRows = 16;
  constexpr size_t kNearby = 16;  // A gap of fewer columns costs less than a second product.
  if (rows.rows() < kFewRows) return {};
  const std::span<const float> first = rows.row(0);
  std::vector<uint8_t> differs(first.size());
  for (size_t r = 1; r < rows.rows(); ++r) {
    const std::span<const float> row = rows.row(r);
    for (size_t c = 0; c < first.size(); ++c) differs[c] |= row[c] != first[c] ? 1 : 0;
    const bool is_power = (r & (r - 1)) == 0;
    if (is_power && 2 * std::ranges::count(differs, 1) > std::ssize(differs)) return {};
  }
  std::vector<ColumnRange> ranges;
  size_t count = 0;
  for (size_t c = 0; c < differs.size(); ++c) {
    if (differs[c] == 0) continue;
    if (ranges.empty() || c > ranges.back().first + ranges.back().count + kNearby) {
      ranges.push_back({c, 0});
    }
    count -= ranges.back().count;
    ranges.back().count = c + 1 - ranges.back().first;
    count += ranges.back().count;
  }
  return 2 * count > differs.size() ? std::vector<ColumnRange>() : ranges;
}

// The linear layer, with the product of the columns that all rows share computed once. A request
// for many candidates of one user has such columns.
Status SharedForward(MatrixView<const float> input, std::span<const ColumnRange> differing,
                     MatrixView<const float> weight, std::span<const float> bias,
                     MatrixView<float> output) {
  const auto add_product = [&](size_t column, size_t count, MatrixView<const float> rows,
                               MatrixView<float> sums) {
    if (count == 0) return absl::OkStatus();
    return Multiply({rows.Columns(column, count)}, {weight.Rows(column, count)}, count, 1.0F, sums);
  };
  const MatrixView<float> shared = output.Rows(0, 1);
  std::ranges::copy(bias, shared.row(0).begin());
  size_t next = 0;
  for (const ColumnRange& range : differing) {
    SIMURGH_RETURN_IF_ERROR(add_product(next, range.first - next, input.Rows(0, 1), shared));
    next = range.first + range.count;
  }
  SIMURGH_RETURN_IF_ERROR(add_product(next, input.columns() - next, input.Rows(0, 1), shared));
  for (size_t row = 1; row < output.rows(); ++row) {
    std::ranges::copy(shared.row(0), output.row(row).begin());
  }
  for (const ColumnRange& range : differing) {
    SIMURGH_RETURN_IF_ERROR(add_product(range.first, range.count, input, output));
  }
  return absl::OkStatus();
}

// Computes all layers of a tower. Towers that it reads must have been computed.
Status PredictTower(const PredictPass& pass, const NetworkInputs& inputs, const TowerPlan& tower) {
  GatherInput(pass, inputs, tower);
  MatrixView<const float> input = pass.activations.Input(tower);
  for (size_t i = 0; i < tower.layers.size(); ++i) {
    const LayerPlan& layer = tower.layers[i];
    const bool relu = HasRelu(tower, i);
    const bool is_linear = layer.config.kind == LayerConfig::Kind::kLinear;
    const std::vector<ColumnRange> differing = is_linear && i == 0 && pass.products != nullptr
                                                   ? DifferingColumns(input)
                                                   : std::vector<ColumnRange>();
    if (!differing.empty()) {
      SIMURGH_RETURN_IF_ERROR(SharedForward(input, differing, layer.Weight(pass.weights),
                                            layer.Bias(pass.weights),
                                            pass.activations.Output(layer)));
    } else if (is_linear && pass.packed != nullptr && PackedProducts::Has(*pass.packed, layer)) {
      if (relu) ++i;
      SIMURGH_RETURN_IF_ERROR(pass.products->Forward(*pass.packed, layer, layer.Bias(pass.weights),
                                                     relu, input,
                                                     pass.activations.Output(tower.layers[i])));
    } else {
      SIMURGH_RETURN_IF_ERROR(PredictLayer(pass, tower, i, input));
      if (relu) ++i;
    }
    input = pass.activations.Output(tower.layers[i]);
  }
  return absl::OkStatus();
}

}  // namespace

Status PredictVectors(const PredictPass& pass, const NetworkInputs& inputs, size_t side,
                      MatrixView<float> vectors) {
  const std::vector<TowerPlan>& towers = pass.plan.towers;
  std::vector<bool> is_needed(towers.size());
  const auto need = [&](const TowerInput& input) {
    if (input.source == TowerInput::Source::kTower) is_needed[input.tower] = true;
  };
  TowerInput vector = towers.back().inputs[side];
  need(vector);
  for (size_t i = towers.size(); i-- > 0;) {
    if (is_needed[i]) std::ranges::for_each(towers[i].inputs, need);
  }
  for (size_t i = 0; i < towers.size(); ++i) {
    if (is_needed[i]) SIMURGH_RETURN_IF_ERROR(PredictTower(pass, inputs, towers[i]));
  }
  vector.column = 0;
  GatherBlock(pass, inputs, vector, vectors);
  return absl::OkStatus();
}

Status PredictBatch(const PredictPass& pass, const NetworkInputs& inputs,
                    std::span<float> outputs) {
  for (const TowerPlan& tower : pass.plan.towers) {
    SIMURGH_RETURN_IF_ERROR(PredictTower(pass, inputs, tower));
  }
  std::ranges::transform(pass.activations.Output(pass.plan.top().last()).flat(), outputs.begin(),
                         [&](float output) { return output * pass.plan.output_factor; });
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
