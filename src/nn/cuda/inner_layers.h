#pragma once

#include <span>

#include "nn/cuda/attention_kernels.h"
#include "nn/cuda/column_layers.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Layers inside attention and self_attention. A row of their matrices is a place of a sample, so
// the number of rows depends on the batch's size only. Empty places have finite values, and the
// gradient 0. x, dx: input and its gradient; y, dy: output and its gradient.
//
// Threads: one owner.
template <typename Executor, typename T>
class InnerLayers {
 public:
  InnerLayers(Executor& executor, Tensors<T>& tensors)
      : executor_(executor), tensors_(tensors), columns_(executor, tensors) {}

  // weights: in the layout of parameters().
  void UseWeights(std::span<const float> weights) {
    weights_ = weights;
    columns_.UseWeights(weights);
  }

  ColumnLayers<Executor, T>& columns() { return columns_; }

  // Returns the layer's input as its places.
  static AttentionInput<T> PlacesOf(const LayerPlan& layer, const Matrix<const T>& input) {
    return {input, layer.query_width, layer.places, layer.row_width};
  }

  // Returns a matrix with a row for each place.
  template <typename U>
  Matrix<U> RowsAs(const LayerPlan& layer, const MatrixRegion& region) const {
    Matrix<U> matrix = tensors_.template ViewAs<U>(region);
    matrix.rows *= layer.places;
    return matrix;
  }
  Matrix<T> Rows(const LayerPlan& layer, const MatrixRegion& region) const {
    return RowsAs<T>(layer, region);
  }

  void LinearForward(const LayerPlan& linear, const InnerMemory& memory, const Matrix<const T>& x,
                     bool relu, const Matrix<T>& y) {
    const Matrix<T> weight = WeightCopy(linear, memory);
    const Matrix<const float> from{linear.Weight(weights_).data(), linear.input_width,
                                   linear.output_width, linear.output_width};
    Cells(CopyCell<float, T>{from, weight}, weight);
    executor_.Multiply(Gemm<T, T>{.a = x, .b = weight, .depth = linear.input_width, .d = y});
    Cells(AddBiasCell<T>{y, linear.Bias(weights_).data(), relu}, y);
  }

  // added: a term of dx, unless it has no memory.
  void LinearBackward(const LayerPlan& linear, const InnerMemory& memory, const Matrix<const T>& x,
                      const Matrix<const T>& dy, const Matrix<T>& dx,
                      const Matrix<const T>& added = {}) {
    const MatrixView<float> gradient = linear.Weight(tensors_.gradients());
    executor_.Multiply(Gemm<T, float>{
        .a = x,
        .a_transposed = true,
        .b = dy,
        .depth = x.rows,
        .d = {gradient.data(), gradient.rows(), gradient.columns(), gradient.stride()}});
    SumColumns(executor_, ValueTerm<T>{dy}, dy.rows, tensors_.ColumnParts(dy.columns, dy.rows),
               {tensors_.column_sums(), linear.Bias(tensors_.gradients()).data()});
    executor_.Multiply(Gemm<T, T>{.a = dy,
                                  .b = WeightCopy(linear, memory),
                                  .b_transposed = true,
                                  .depth = linear.output_width,
                                  .d = dx,
                                  .c = added,
                                  .beta = added.data == nullptr ? 0.0F : 1.0F});
  }

  // dx: the gradient of the relu's output x; becomes that of its input.
  void ReluBackward(const Matrix<const T>& x, const Matrix<T>& dx) {
    Cells(ActivationBackwardCell<T, ReluFormula>{x, dx, dx}, dx);
  }

  // Calls kernel for each cell of a matrix of that shape.
  template <typename Kernel, typename Shape>
  void Cells(const Kernel& kernel, const Shape& shape) {
    executor_.ForEachCell(shape.rows, shape.columns, kernel);
  }

 private:
  // Returns the weight for products.
  Matrix<T> WeightCopy(const LayerPlan& linear, const InnerMemory& memory) const {
    Matrix<T> copy = tensors_.View(memory.weight);
    copy.rows = linear.input_width;
    return copy;
  }

  Executor& executor_;
  Tensors<T>& tensors_;
  ColumnLayers<Executor, T> columns_;
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
