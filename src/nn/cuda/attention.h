#pragma once

#include <span>

#include "nn/cuda/attention_kernels.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/head_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/slope_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Attention layers. A row of the inner layers is a place of a sample, so their number depends on
// the batch's size only.
//
// Threads: one owner.
template <typename Executor, typename T>
class Attention {
 public:
  Attention(const ModelPlan& plan, Executor& executor, Tensors<T>& tensors)
      : plan_(plan), executor_(executor), tensors_(tensors) {}

  void UseWeights(std::span<const float> weights) { weights_ = weights; }

  void Forward(size_t t, size_t i, const Matrix<const T>& input) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const AttentionInput<T> in = InputOf(layer, input);
    const Matrix<T> pairs = Rows<T>(layer, memory.pairs);
    executor_.ForEachCell(pairs.rows, pairs.columns, PairCell<T>{in, pairs});
    for (size_t k = 0; k + 1 < layer.inner.size(); ++k) InnerForward(layer, memory, k);
    const LayerPlan& last = layer.inner.back();
    const Matrix<float> weights = Rows<float>(layer, memory.row_weights);
    const Matrix<const T> hidden = InnerInput(layer, memory, layer.inner.size() - 1);
    executor_.ForEachSum(
        hidden.rows,
        HeadRow<T, float, NoNext>{hidden, last.Weight(weights_).data(), last.Bias(weights_).data(),
                                  weights, NoNext(), hidden.template Packs<kPackOf<T>>()});
    executor_.ForEach(input.rows, WeighRows<T>{in, layer.config.normalises, weights.data});
    const Matrix<T> output = tensors_.View(memory.output);
    executor_.ForEachCell(output.rows, output.columns,
                          WeightedRowsCell<T>{in, weights.data, output});
  }

  void Backward(size_t t, size_t i, const Matrix<const T>& input) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const AttentionInput<T> in = InputOf(layer, input);
    const Matrix<const T> dy = tensors_.View(memory.output_gradient);
    const float* const weights = Rows<float>(layer, memory.row_weights).data;
    float* const slopes = Rows<float>(layer, memory.row_slopes).data;
    const Matrix<T> scores = Rows<T>(layer, memory.score_gradients);
    executor_.ForEachCell(input.rows, layer.places, WeightSlopeCell<T>{in, dy, slopes});
    executor_.ForEach(input.rows,
                      ScoreGradients<T>{in, layer.config.normalises, weights, slopes, scores});
    const size_t last = layer.inner.size() - 1;
    if (IsReluBefore(layer, last)) {
      LastBackward<ReluFormula>(layer, memory, scores);
    } else {
      LastBackward<IdentityFormula>(layer, memory, scores);
    }
    for (size_t k = last; k-- > 0;) InnerBackward(layer, memory, k);
    const Matrix<T> dx = tensors_.InputGradient(t, i);
    executor_.ForEachCell(
        dx.rows, dx.columns,
        AttentionBackwardCell<T>{in, weights, dy, Rows<T>(layer, memory.pair_gradients), dx});
  }

 private:
  using Kind = LayerConfig::Kind;

  const LayerPlan& Layer(size_t t, size_t i) const { return plan_.towers[t].layers[i]; }

  static AttentionInput<T> InputOf(const LayerPlan& layer, const Matrix<const T>& input) {
    return {input, layer.query_width, layer.places, layer.row_width};
  }

  // Returns whether inner layer k is linear and reads a relu.
  static bool IsReluBefore(const LayerPlan& layer, size_t k) {
    return k > 0 && layer.inner[k - 1].config.kind == Kind::kLinear &&
           layer.inner[k].config.kind == Kind::kLinear;
  }

  template <typename U>
  Matrix<U> Rows(const LayerPlan& layer, const MatrixRegion& region) const {
    Matrix<U> matrix = tensors_.template ViewAs<U>(region);
    matrix.rows *= layer.places;
    return matrix;
  }
  Matrix<const T> InnerInput(const LayerPlan& layer, const LayerMemory& memory, size_t k) const {
    return Rows<T>(layer, k == 0 ? memory.pairs : memory.inner_layers[k - 1].output);
  }
  Matrix<T> InnerInputGradient(const LayerPlan& layer, const LayerMemory& memory, size_t k) const {
    return Rows<T>(layer, k == 0 ? memory.pair_gradients : memory.inner_layers[k - 1].gradient);
  }
  ColumnScratch ColumnParts(const LayerPlan& layer, size_t columns) const {
    return tensors_.ColumnParts(columns, tensors_.rows() * layer.places);
  }
  // The weight for products.
  Matrix<T> WeightCopy(const LayerPlan& linear, const InnerMemory& memory) const {
    Matrix<T> copy = tensors_.View(memory.weight);
    copy.rows = linear.input_width;
    return copy;
  }

  void InnerForward(const LayerPlan& layer, const LayerMemory& memory, size_t k) {
    const LayerPlan& inner = layer.inner[k];
    const Matrix<const T> x = InnerInput(layer, memory, k);
    const Matrix<T> y = Rows<T>(layer, memory.inner_layers[k].output);
    if (inner.config.kind == Kind::kSigmoid) {
      return executor_.ForEachCell(y.rows, y.columns, ActivationCell<T, SigmoidFormula>{x, y});
    }
    if (inner.config.kind == Kind::kPrelu) {
      return executor_.ForEachCell(y.rows, y.columns,
                                   PreluCell<T>{x, inner.Slope(weights_).data(), y});
    }
    const Matrix<T> weight = WeightCopy(inner, memory.inner_layers[k]);
    const Matrix<const float> from{inner.Weight(weights_).data(), inner.input_width,
                                   inner.output_width, inner.output_width};
    executor_.ForEachCell(weight.rows, weight.columns, CopyCell<float, T>{from, weight});
    executor_.Multiply(Gemm<T, T>{.a = x, .b = weight, .depth = inner.input_width, .d = y});
    executor_.ForEachCell(
        y.rows, y.columns,
        AddBiasCell<T>{y, inner.Bias(weights_).data(), IsReluBefore(layer, k + 1)});
  }

  void InnerBackward(const LayerPlan& layer, const LayerMemory& memory, size_t k) {
    const LayerPlan& inner = layer.inner[k];
    const Matrix<const T> x = InnerInput(layer, memory, k);
    const Matrix<const T> y = Rows<T>(layer, memory.inner_layers[k].output);
    const Matrix<const T> dy = Rows<T>(layer, memory.inner_layers[k].gradient);
    const Matrix<T> dx = InnerInputGradient(layer, memory, k);
    const std::span<float> gradients = tensors_.gradients();
    if (inner.config.kind == Kind::kSigmoid) {
      return executor_.ForEachCell(dx.rows, dx.columns,
                                   ActivationBackwardCell<T, SigmoidFormula>{y, dy, dx});
    }
    if (inner.config.kind == Kind::kPrelu) {
      SumColumns(executor_, PreluSlopeTerm<T>{x, dy}, x.rows, ColumnParts(layer, x.columns),
                 {tensors_.column_sums(), inner.Slope(gradients).data()});
      return executor_.ForEachCell(dx.rows, dx.columns,
                                   PreluBackwardCell<T>{x, inner.Slope(weights_).data(), dy, dx});
    }
    const MatrixView<float> weight = inner.Weight(gradients);
    executor_.Multiply(
        Gemm<T, float>{.a = x,
                       .a_transposed = true,
                       .b = dy,
                       .depth = x.rows,
                       .d = {weight.data(), weight.rows(), weight.columns(), weight.stride()}});
    SumColumns(executor_, ValueTerm<T>{dy}, dy.rows, ColumnParts(layer, dy.columns),
               {tensors_.column_sums(), inner.Bias(gradients).data()});
    executor_.Multiply(Gemm<T, T>{.a = dy,
                                  .b = WeightCopy(inner, memory.inner_layers[k]),
                                  .b_transposed = true,
                                  .depth = inner.output_width,
                                  .d = dx});
    if (IsReluBefore(layer, k)) {
      executor_.ForEachCell(dx.rows, dx.columns, ActivationBackwardCell<T, ReluFormula>{x, dx, dx});
    }
  }

  template <typename Formula>
  void LastBackward(const LayerPlan& layer, const LayerMemory& memory, const Matrix<T>& scores) {
    const size_t k = layer.inner.size() - 1;
    const LayerPlan& last = layer.inner[k];
    const Matrix<const T> x = InnerInput(layer, memory, k);
    // The weight's gradient is followed by the bias's.
    const ColumnScratch parts = ColumnParts(layer, x.columns + 1);
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
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
