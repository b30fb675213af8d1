#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/inner_layers.h"
#include "nn/cuda/piece_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/self_attention_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Transformer blocks. Weights of places, and their softmax, are f32.
//
// Threads: one owner.
template <typename Executor, typename T>
class SelfAttention {
 public:
  SelfAttention(const ModelPlan& plan, Executor& executor, Tensors<T>& tensors)
      : plan_(plan), executor_(executor), tensors_(tensors), inner_(executor, tensors) {}

  void UseWeights(std::span<const float> weights) {
    weights_ = weights;
    inner_.UseWeights(weights);
  }

  void Forward(size_t t, size_t i, const Matrix<const T>& input) {
    const Block block = BlockOf(t, i, input);
    const LayerPlan& layer = block.layer;
    const float* const positions =
        layer.config.positions ? weights_.data() + layer.parameter_offset : nullptr;
    inner_.Cells(TakeRowsCell<T>{block.in, input, positions, block.x}, block.x);
    LinearForward(block, Inner::kIn, block.x, false);
    ReadPlaces(block);
    LinearForward(block, Inner::kOut, block.context, false);
    AddTo(block.x, Output(block, Inner::kOut));
    NormForward(block, Inner::kNorm1, Inner::kOut);
    LinearForward(block, Inner::kLinear1, Output(block, Inner::kNorm1), true);
    LinearForward(block, Inner::kLinear2, Output(block, Inner::kLinear1), false);
    AddTo(Output(block, Inner::kNorm1), Output(block, Inner::kLinear2));
    NormForward(block, Inner::kNorm2, Inner::kLinear2);
    const Matrix<T> output = tensors_.View(block.memory.output);
    inner_.Cells(ReturnRowsCell<T>{block.in, Output(block, Inner::kNorm2), output}, output);
  }

  void Backward(size_t t, size_t i, const Matrix<const T>& input) {
    const Block block = BlockOf(t, i, input);
    const LayerPlan& layer = block.layer;
    const LayerMemory& memory = block.memory;
    const Matrix<T> dy = Gradient(block, Inner::kNorm2);
    inner_.Cells(TakeRowsCell<T>{block.in, tensors_.View(memory.output_gradient), nullptr, dy}, dy);
    NormBackward(block, Inner::kNorm2, Inner::kLinear2);
    LinearBackward(block, Inner::kLinear2, Output(block, Inner::kLinear1),
                   Gradient(block, Inner::kLinear1));
    inner_.ReluBackward(Output(block, Inner::kLinear1), Gradient(block, Inner::kLinear1));
    LinearBackward(block, Inner::kLinear1, Output(block, Inner::kNorm1),
                   Gradient(block, Inner::kNorm1), Gradient(block, Inner::kLinear2));
    NormBackward(block, Inner::kNorm1, Inner::kOut);
    LinearBackward(block, Inner::kOut, block.context, block.context_gradient);
    ReadPlacesBackward(block);
    LinearBackward(block, Inner::kIn, block.x, block.dx, Gradient(block, Inner::kOut));
    const Matrix<T> dx = tensors_.InputGradient(t, i);
    inner_.Cells(ReturnRowsCell<T>{block.in, block.dx, dx}, dx);
    if (!layer.config.positions) return;
    const Matrix<const T> rows = dx.Columns(0, layer.output_width);
    SumColumns(executor_, ValueTerm<T>{rows}, rows.rows, tensors_.ColumnParts(rows.columns),
               {tensors_.column_sums(), tensors_.gradients().data() + layer.parameter_offset});
  }

 private:
  using Inner = SelfAttentionLayers;

  // A layer, its memory and those of its matrices that no inner layer has.
  struct Block {
    const LayerPlan& layer;
    const LayerMemory& memory;
    AttentionInput<T> in;
    Matrix<T> x;
    Matrix<T> dx;
    Matrix<T> context;
    Matrix<T> context_gradient;
    Matrix<float> weights;
    Matrix<float> slopes;  // Gradients of the weights.
    size_t dim;            // Columns of a head.

    // Queries, keys or values in a matrix of all three.
    Matrix<T> Part(const Matrix<T>& whole, size_t index) const {
      return whole.Columns(index * layer.row_width, layer.row_width);
    }
    // The weights with a row for each head.
    Matrix<float> ByHead(const Matrix<float>& of) const {
      return {of.data, of.rows * layer.config.width, layer.places, layer.places};
    }
  };

  Block BlockOf(size_t t, size_t i, const Matrix<const T>& input) const {
    const LayerPlan& layer = plan_.towers[t].layers[i];
    const LayerMemory& memory = tensors_.Memory(t, i);
    return {.layer = layer,
            .memory = memory,
            .in = inner_.PlacesOf(layer, input),
            .x = inner_.Rows(layer, memory.inner_input),
            .dx = inner_.Rows(layer, memory.inner_input_gradient),
            .context = inner_.Rows(layer, memory.context),
            .context_gradient = inner_.Rows(layer, memory.context_gradient),
            .weights = inner_.template RowsAs<float>(layer, memory.row_weights),
            .slopes = inner_.template RowsAs<float>(layer, memory.row_slopes),
            .dim = layer.row_width / layer.config.width};
  }

  Matrix<T> Output(const Block& block, Inner k) const {
    return inner_.Rows(block.layer, block.memory.inner_layers[k].output);
  }
  Matrix<T> Gradient(const Block& block, Inner k) const {
    return inner_.Rows(block.layer, block.memory.inner_layers[k].gradient);
  }

  void LinearForward(const Block& block, Inner k, const Matrix<const T>& x, bool relu) {
    inner_.LinearForward(block.layer.inner[k], block.memory.inner_layers[k], x, relu,
                         Output(block, k));
  }
  void LinearBackward(const Block& block, Inner k, const Matrix<const T>& x, const Matrix<T>& dx,
                      const Matrix<const T>& added = {}) {
    inner_.LinearBackward(block.layer.inner[k], block.memory.inner_layers[k], x, Gradient(block, k),
                          dx, added);
  }
  Matrix<float> RowValues(const Block& block, Inner norm) const {
    return inner_.template RowsAs<float>(block.layer, block.memory.inner_layers[norm].row_values);
  }
  void NormForward(const Block& block, Inner norm, Inner input) {
    inner_.columns().LayerNormForward(block.layer.inner[norm], Output(block, input),
                                      RowValues(block, norm), Output(block, norm));
  }
  void NormBackward(const Block& block, Inner norm, Inner input) {
    inner_.columns().LayerNormBackward(block.layer.inner[norm], Output(block, input),
                                       Gradient(block, norm), RowValues(block, norm),
                                       Gradient(block, input));
  }
  void AddTo(const Matrix<const T>& terms, const Matrix<T>& sums) {
    inner_.Cells(AddCell<T, T>{terms, sums}, sums);
  }

  static float ScoreFactor(const Block& block) {
    return 1.0F / std::sqrt(static_cast<float>(block.dim));
  }

  void Multiply(const Block& block, const Matrix<const T>& a, const Matrix<const T>& b,
                float factor, float unread, const Matrix<float>& to) {
    inner_.Cells(
        RowProductCell<T>{block.in, block.layer.config.causal, block.dim, a, b, factor, unread, to},
        to);
  }
  void Sum(const Block& block, const Matrix<const float>& weights, bool transposed,
           const Matrix<const T>& from, float factor, const Matrix<T>& to) {
    inner_.Cells(
        RowSumCell<T>{block.layer.places, block.dim, weights, transposed, from, factor, to}, to);
  }

  // Empty places read all places with equal weights, which no row sees.
  void ReadPlaces(const Block& block) {
    const Matrix<T> in = Output(block, Inner::kIn);
    Multiply(block, block.Part(in, 0), block.Part(in, 1), ScoreFactor(block),
             -std::numeric_limits<float>::infinity(), block.weights);
    const Matrix<float> heads = block.ByHead(block.weights);
    executor_.ForEach(heads.rows, SoftmaxRow<float>{heads, heads});
    Sum(block, block.weights, false, block.Part(in, 2), 1.0F, block.context);
  }

  void ReadPlacesBackward(const Block& block) {
    const Matrix<T> in = Output(block, Inner::kIn);
    const Matrix<T> gradient = Gradient(block, Inner::kIn);
    const Matrix<const T> dy = block.context_gradient;
    const float factor = ScoreFactor(block);
    Multiply(block, dy, block.Part(in, 2), 1.0F, 0.0F, block.slopes);
    const Matrix<float> heads = block.ByHead(block.slopes);
    executor_.ForEach(heads.rows,
                      SoftmaxBackwardRow<float>{block.ByHead(block.weights), heads, heads});
    Sum(block, block.slopes, false, block.Part(in, 1), factor, block.Part(gradient, 0));
    Sum(block, block.slopes, true, block.Part(in, 0), factor, block.Part(gradient, 1));
    Sum(block, block.weights, true, dy, 1.0F, block.Part(gradient, 2));
  }

  const ModelPlan& plan_;
  Executor& executor_;
  Tensors<T>& tensors_;
  InnerLayers<Executor, T> inner_;
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
