#pragma once

#include <algorithm>
#include <span>

#include "nn/cuda/attention_kernels.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/head_kernels.h"
#include "nn/cuda/inner_layers.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Attention layers.
//
// Threads: one owner.
template <typename Executor, typename T>
class Attention {
 public:
  Attention(const ModelPlan& plan, Executor& executor, Tensors<T>& tensors)
      : plan_(plan), executor_(executor), tensors_(tensors), inner_(executor, tensors) {}

  void UseWeights(std::span<const float> weights) {
    weights_ = weights;
    inner_.UseWeights(weights);
  }

  // ranks: null in prediction.
  void Forward(size_t t, size_t i, const Matrix<const T>& input, const RankPass* ranks) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const AttentionInput<T> in = inner_.PlacesOf(layer, input);
    if (ranks != nullptr && HasStatistics(layer)) CountRows(t, in, *ranks);
    const Matrix<T> pairs = inner_.Rows(layer, memory.inner_input);
    inner_.Cells(PairCell<T>{in, pairs}, pairs);
    const size_t last = layer.inner.size() - 1;
    for (size_t k = 0; k < last; ++k) InnerForward(t, i, k, in, ranks);
    const LayerPlan& head = layer.inner[last];
    const Matrix<float> weights = Column(layer, memory.row_weights);
    const Matrix<const T> hidden = InnerInput(layer, memory, last);
    executor_.ForEachSum(
        hidden.rows,
        HeadRow<T, float, NoNext>{hidden, head.Weight(weights_).data(), head.Bias(weights_).data(),
                                  weights, NoNext(), hidden.template Packs<kPackOf<T>>()});
    executor_.ForEach(input.rows, WeighRows<T>{in, layer.config.normalises, weights.data});
    const Matrix<T> output = tensors_.View(memory.output);
    inner_.Cells(WeightedRowsCell<T>{in, weights.data, output}, output);
  }

  void Backward(size_t t, size_t i, const Matrix<const T>& input, const RankPass& ranks) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const AttentionInput<T> in = inner_.PlacesOf(layer, input);
    const Matrix<const T> dy = tensors_.View(memory.output_gradient);
    const float* const weights = Column(layer, memory.row_weights).data;
    float* const slopes = Column(layer, memory.row_slopes).data;
    const Matrix<T> scores = inner_.Rows(layer, memory.score_gradients);
    executor_.ForEachCell(input.rows, layer.places, WeightSlopeCell<T>{in, dy, slopes});
    executor_.ForEach(input.rows,
                      ScoreGradients<T>{in, layer.config.normalises, weights, slopes, scores});
    const size_t last = layer.inner.size() - 1;
    if (IsReluBefore(layer, last)) {
      LastBackward<ReluFormula>(layer, memory, scores);
    } else {
      LastBackward<IdentityFormula>(layer, memory, scores);
    }
    for (size_t k = last; k-- > 0;) InnerBackward(t, i, k, in, ranks);
    const Matrix<T> dx = tensors_.InputGradient(t, i);
    inner_.Cells(AttentionBackwardCell<T>{in, weights, dy,
                                          inner_.Rows(layer, memory.inner_input_gradient), dx},
                 dx);
  }

  // The passes of a rank without samples.
  void TakePartForward(size_t t, size_t i, const RankPass& ranks) {
    const LayerPlan& layer = Layer(t, i);
    if (!HasStatistics(layer)) return;
    CountRows(t, inner_.PlacesOf(layer, {}), ranks);
    for (const LayerPlan& inner : layer.inner) {
      if (inner.has_statistics) inner_.columns().TakePartForward(inner, RowsIn(t), ranks);
    }
  }
  void TakePartBackward(size_t t, size_t i, const RankPass& ranks) {
    const std::vector<LayerPlan>& layers = Layer(t, i).inner;
    for (size_t k = layers.size(); k-- > 0;) {
      if (layers[k].has_statistics) inner_.columns().TakePartBackward(layers[k], ranks);
    }
  }

 private:
  using Kind = LayerConfig::Kind;

  const LayerPlan& Layer(size_t t, size_t i) const { return plan_.towers[t].layers[i]; }

  static bool HasStatistics(const LayerPlan& layer) {
    return std::ranges::any_of(layer.inner, &LayerPlan::has_statistics);
  }

  // Returns whether inner layer k is linear and reads a relu.
  static bool IsReluBefore(const LayerPlan& layer, size_t k) {
    return k > 0 && layer.inner[k - 1].config.kind == Kind::kLinear &&
           layer.inner[k].config.kind == Kind::kLinear;
  }

  Matrix<float> Column(const LayerPlan& layer, const MatrixRegion& region) const {
    return inner_.template RowsAs<float>(layer, region);
  }
  Matrix<const T> InnerInput(const LayerPlan& layer, const LayerMemory& memory, size_t k) const {
    return inner_.Rows(layer, k == 0 ? memory.inner_input : memory.inner_layers[k - 1].output);
  }
  Matrix<T> InnerInputGradient(const LayerPlan& layer, const LayerMemory& memory, size_t k) const {
    return inner_.Rows(layer,
                       k == 0 ? memory.inner_input_gradient : memory.inner_layers[k - 1].gradient);
  }

  // The number of rows in the statistics of dice, which depends on the batch's data.
  RowCount RowsIn(size_t t) const { return {.counted = tensors_.row_count(t)}; }

  void CountRows(size_t t, const AttentionInput<T>& in, const RankPass& ranks) {
    const size_t places = in.input.rows * in.places;
    SumColumns(executor_, PlaceTerm<T>{in}, places, tensors_.ColumnParts(1, places),
               {tensors_.row_count(t)});
    if (ranks.sum_statistics) ranks.sum_statistics(tensors_.row_count(t), 1);
  }

  void InnerForward(size_t t, size_t i, size_t k, const AttentionInput<T>& in,
                    const RankPass* ranks) {
    const LayerPlan& layer = Layer(t, i);
    const LayerPlan& inner = layer.inner[k];
    const LayerMemory& memory = tensors_.Memory(t, i);
    const Matrix<const T> x = InnerInput(layer, memory, k);
    const Matrix<T> y = inner_.Rows(layer, memory.inner_layers[k].output);
    switch (inner.config.kind) {
      case Kind::kSigmoid:
        return inner_.Cells(ActivationCell<T, SigmoidFormula>{x, y}, y);
      case Kind::kPrelu:
        return inner_.columns().PreluForward(inner, x, y);
      case Kind::kDice:
        return inner_.columns().DiceForward(inner, x, y, in, RowsIn(t), ranks);
      default:
        return inner_.LinearForward(inner, memory.inner_layers[k], x, IsReluBefore(layer, k + 1),
                                    y);
    }
  }

  void InnerBackward(size_t t, size_t i, size_t k, const AttentionInput<T>& in,
                     const RankPass& ranks) {
    const LayerPlan& layer = Layer(t, i);
    const LayerPlan& inner = layer.inner[k];
    const LayerMemory& memory = tensors_.Memory(t, i);
    const Matrix<const T> x = InnerInput(layer, memory, k);
    const Matrix<const T> y = inner_.Rows(layer, memory.inner_layers[k].output);
    const Matrix<const T> dy = inner_.Rows(layer, memory.inner_layers[k].gradient);
    const Matrix<T> dx = InnerInputGradient(layer, memory, k);
    switch (inner.config.kind) {
      case Kind::kSigmoid:
        return inner_.Cells(ActivationBackwardCell<T, SigmoidFormula>{y, dy, dx}, dx);
      case Kind::kPrelu:
        return inner_.columns().PreluBackward(inner, x, dy, dx);
      case Kind::kDice:
        return inner_.columns().DiceBackward(inner, x, dy, in, RowsIn(t), ranks, dx);
      default:
        inner_.LinearBackward(inner, memory.inner_layers[k], x, dy, dx);
        if (IsReluBefore(layer, k)) inner_.ReluBackward(x, dx);
    }
  }

  template <typename Formula>
  void LastBackward(const LayerPlan& layer, const LayerMemory& memory, const Matrix<T>& scores) {
    const size_t k = layer.inner.size() - 1;
    const LayerPlan& last = layer.inner[k];
    const Matrix<const T> x = InnerInput(layer, memory, k);
    // The weight's gradient is followed by the bias's.
    const ColumnScratch parts = tensors_.ColumnParts(x.columns + 1, x.rows);
    executor_.ForEachCell(
        parts.partial.rows, x.columns,
        HeadBackwardCell<T, Formula>{x, x, scores, last.Weight(weights_).data(),
                                     InnerInputGradient(layer, memory, k), parts.partial});
    FinishColumns(executor_, parts,
                  {tensors_.column_sums(), last.Weight(tensors_.gradients()).data()});
  }

  const ModelPlan& plan_;
  Executor& executor_;
  Tensors<T>& tensors_;
  InnerLayers<Executor, T> inner_;
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
