#pragma once

#include <cstdint>
#include <span>

#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/head_kernels.h"
#include "nn/cuda/piece_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Returns whether kernels of its own compute the layer: a linear one of one output, without an
// activation that its product would fuse.
inline bool IsHead(const ModelPlan& plan, size_t t, size_t i) {
  using Kind = LayerConfig::Kind;
  const std::vector<LayerPlan>& layers = plan.towers[t].layers;
  const auto is = [&](size_t layer, Kind kind) {
    return layer < layers.size() && layers[layer].config.kind == kind;
  };
  return is(i, Kind::kLinear) && layers[i].output_width == 1 && !is(i + 1, Kind::kRelu) &&
         !is(i + 1, Kind::kGelu);
}

// Linear, cross and bilinear layers. A kernel computes an epilogue that the product could not fuse.
//
// Threads: one owner.
template <typename Executor, typename T>
class Products {
 public:
  Products(const ModelPlan& plan, Executor& executor, Tensors<T>& tensors)
      : plan_(plan), executor_(executor), tensors_(tensors) {}

  // weights: in the layout of parameters(); the copies in tensors are theirs.
  void UseWeights(std::span<const float> weights) { weights_ = weights; }

  void LinearForward(size_t t, size_t i, const Matrix<const T>& input, bool training) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const WeightCopies& copies = tensors_.Copies(t, i);
    const Matrix<const T> weight = tensors_.WeightCopy(copies.weight, copies.padded_rows);
    if (plan_.IsLogit(t, i)) {
      // The logits are f32; a fused bias must have the output's type.
      const Matrix<float> logits = tensors_.template ViewAs<float>(memory.output);
      executor_.Multiply(
          Gemm<T, float>{.a = input, .b = weight, .depth = copies.padded_rows, .d = logits});
      AddBias(logits, layer, false);
      return;
    }
    Gemm<T, T> gemm{.a = input,
                    .b = weight,
                    .depth = copies.padded_rows,
                    .d = tensors_.View(memory.output),
                    .epilogue = Epilogue::kBias,
                    .bias = tensors_.BiasCopy(copies)};
    if (memory.has_gelu) {
      gemm.epilogue = Epilogue::kBiasGelu;
      gemm.gelu_input = gemm.d;
      gemm.d = tensors_.View(tensors_.Memory(t, i + 1).output);
      if (!executor_.Multiply(gemm)) {
        executor_.ForEachCell(
            gemm.d.rows, gemm.d.columns,
            AddBiasGeluCell<T>{gemm.d, layer.Bias(weights_).data(), gemm.gelu_input});
      }
      return;
    }
    if (memory.has_relu) {
      gemm.epilogue = training ? Epilogue::kBiasReluMask : Epilogue::kBiasRelu;
      gemm.mask = &tensors_.Mask(t, i);
      if (training) gemm.mask->written = false;
    }
    if (!executor_.Multiply(gemm)) AddBias(gemm.d, layer, memory.has_relu);
  }

  // The forward pass of a head; calls next(row) when a row's output is complete.
  template <typename Out, typename Next>
  void HeadForward(size_t t, size_t i, const Matrix<const T>& input, const Next& next) {
    const LayerPlan& layer = Layer(t, i);
    executor_.ForEachSum(
        input.rows,
        HeadRow<T, Out, Next>{input, layer.Weight(weights_).data(), layer.Bias(weights_).data(),
                              tensors_.template ViewAs<Out>(tensors_.Memory(t, i).output), next,
                              input.template Packs<kPackOf<T>>()});
  }

  void LinearBackward(size_t t, size_t i, const Matrix<const T>& input, bool needs_input_gradient) {
    const LayerPlan& layer = Layer(t, i);
    if (IsHead(plan_, t, i)) return HeadBackward(t, i, input, needs_input_gradient);
    const Matrix<const T> dy = tensors_.View(tensors_.Memory(t, i).output_gradient);
    WeightGradient(input, dy, layer.Weight(tensors_.gradients()), BiasGradientOf(layer));
    if (!needs_input_gradient) return;
    // The product includes the padding of the input's rows: an odd width would need slower
    // algorithms.
    const WeightCopies& copies = tensors_.Copies(t, i);
    Matrix<T> dx = tensors_.InputGradient(t, i);
    dx.columns = copies.padded_rows;
    Gemm<T, T> gemm{.a = dy,
                    .b = tensors_.WeightCopy(copies.weight, copies.padded_rows),
                    .b_transposed = true,
                    .depth = layer.output_width,
                    .d = dx};
    const bool behind_relu = i > 0 && tensors_.Memory(t, i - 1).is_fused;
    if (behind_relu) {
      gemm.epilogue = Epilogue::kReluBackward;
      gemm.mask = &tensors_.Mask(t, i - 2);
    }
    const bool behind_gelu = i > 0 && tensors_.Memory(t, i - 1).is_fused_gelu;
    if (behind_gelu) {
      gemm.epilogue = Epilogue::kGeluBackward;
      gemm.gelu_input = tensors_.View(tensors_.Memory(t, i - 2).output);
    }
    if (executor_.Multiply(gemm)) return;
    if (behind_relu) {
      executor_.ForEachCell(gemm.d.rows, gemm.d.columns,
                            ActivationBackwardCell<T, ReluFormula>{input, gemm.d, gemm.d});
    } else if (behind_gelu) {
      executor_.ForEachCell(
          gemm.d.rows, gemm.d.columns,
          ActivationBackwardCell<T, GeluFormula>{gemm.gelu_input, gemm.d, gemm.d});
    }
  }

  void CrossForward(size_t t, size_t i, const Matrix<const T>& input) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const WeightCopies& copies = tensors_.Copies(t, i);
    Gemm<T, T> gemm{.a = input,
                    .b = tensors_.WeightCopy(copies.weight, layer.input_width),
                    .depth = layer.input_width,
                    .d = tensors_.View(memory.outer),
                    .epilogue = Epilogue::kBias,
                    .bias = tensors_.BiasCopy(copies)};
    if (layer.config.rank > 0) {
      const Matrix<T> inner = tensors_.View(memory.inner);
      executor_.Multiply(Gemm<T, T>{.a = input,
                                    .b = tensors_.WeightCopy(copies.down, layer.input_width),
                                    .depth = layer.input_width,
                                    .d = inner});
      gemm.a = inner;
      gemm.b = tensors_.WeightCopy(copies.up, layer.config.rank);
      gemm.depth = layer.config.rank;
    }
    if (!executor_.Multiply(gemm)) AddBias(gemm.d, layer, false);
    executor_.ForEachCell(input.rows, input.columns,
                          CrossCombineCell<T>{tensors_.View(tensors_.Memory(t).input), gemm.d,
                                              input, tensors_.View(memory.output)});
  }

  void CrossBackward(size_t t, size_t i, const Matrix<const T>& input, bool needs_input_gradient) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const WeightCopies& copies = tensors_.Copies(t, i);
    const Matrix<const T> dy = tensors_.View(memory.output_gradient);
    const Matrix<T> outer_gradient = tensors_.View(memory.outer_gradient);
    executor_.ForEachCell(input.rows, input.columns,
                          CrossCombineBackwardCell<T>{
                              tensors_.View(tensors_.Memory(t).input), tensors_.View(memory.outer),
                              dy, outer_gradient, tensors_.View(tensors_.Memory(t).origin_gradient),
                              i != *plan_.towers[t].last_cross});
    Matrix<const T> product_gradient = outer_gradient;
    Matrix<const T> weight = tensors_.WeightCopy(copies.weight, layer.input_width);
    const std::span<float> gradients = tensors_.gradients();
    if (layer.config.rank == 0) {
      WeightGradient(input, outer_gradient, layer.Weight(gradients), BiasGradientOf(layer));
    } else {
      const Matrix<T> inner_gradient = tensors_.View(memory.inner_gradient);
      WeightGradient(tensors_.View(memory.inner), outer_gradient, layer.Up(gradients),
                     BiasGradientOf(layer));
      executor_.Multiply(Gemm<T, T>{.a = outer_gradient,
                                    .b = tensors_.WeightCopy(copies.up, layer.config.rank),
                                    .b_transposed = true,
                                    .depth = layer.output_width,
                                    .d = inner_gradient});
      WeightGradient(input, inner_gradient, layer.Down(gradients), nullptr);
      product_gradient = inner_gradient;
      weight = tensors_.WeightCopy(copies.down, layer.input_width);
    }
    if (!needs_input_gradient) return;
    executor_.Multiply(Gemm<T, T>{.a = product_gradient,
                                  .b = weight,
                                  .b_transposed = true,
                                  .depth = product_gradient.columns,
                                  .d = tensors_.InputGradient(t, i),
                                  .c = dy,
                                  .beta = 1.0F});
  }

  // One product with a square matrix takes fewer launches than one for each head.
  void BilinearForward(size_t t, size_t i, const Matrix<const T>& input) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const size_t half = memory.heads.columns;
    const Matrix<T> heads = tensors_.template Square<T>(memory.heads);
    const Matrix<T> product = tensors_.View(memory.outer);
    executor_.ForEachCell(
        half, half,
        SpreadHeads<T>{layer.Heads(weights_).data(), layer.Heads(weights_).columns(), heads});
    executor_.Multiply(
        Gemm<T, T>{.a = input.Columns(0, half), .b = heads, .depth = half, .d = product});
    executor_.ForEachSum(input.rows, ProductOfRows<T, T>{product, input.Columns(half, half),
                                                         tensors_.View(memory.output)});
  }

  void BilinearBackward(size_t t, size_t i, const Matrix<const T>& input,
                        bool needs_input_gradient) {
    const LayerPlan& layer = Layer(t, i);
    const LayerMemory& memory = tensors_.Memory(t, i);
    const size_t half = memory.heads.columns;
    const Matrix<T> dx = needs_input_gradient ? tensors_.InputGradient(t, i) : Matrix<T>();
    const Matrix<T> product_gradient = tensors_.View(memory.outer_gradient);
    executor_.ForEachCell(
        input.rows, half,
        BilinearBackwardCell<T>{tensors_.View(memory.outer), input.Columns(half, half),
                                tensors_.View(memory.output_gradient), product_gradient,
                                needs_input_gradient ? dx.Columns(half, half) : dx});
    const MatrixView<float> gradient = layer.Heads(tensors_.gradients());
    const Matrix<float> square = tensors_.template Square<float>(memory.heads_gradient);
    executor_.Multiply(Gemm<T, float>{.a = input.Columns(0, half),
                                      .a_transposed = true,
                                      .b = product_gradient,
                                      .depth = input.rows,
                                      .d = square});
    executor_.ForEachCell(gradient.rows(), gradient.columns(),
                          CollectHeads{square, gradient.columns(), gradient.data()});
    if (!needs_input_gradient) return;
    executor_.Multiply(Gemm<T, T>{.a = product_gradient,
                                  .b = tensors_.template Square<T>(memory.heads),
                                  .b_transposed = true,
                                  .depth = half,
                                  .d = dx.Columns(0, half)});
  }

 private:
  const LayerPlan& Layer(size_t t, size_t i) const { return plan_.towers[t].layers[i]; }

  float* BiasGradientOf(const LayerPlan& layer) const {
    return layer.Bias(tensors_.gradients()).data();
  }

  void HeadBackward(size_t t, size_t i, const Matrix<const T>& input, bool needs_input_gradient) {
    const bool behind_relu = i > 0 && tensors_.Memory(t, i - 1).is_fused;
    const bool behind_gelu = i > 0 && tensors_.Memory(t, i - 1).is_fused_gelu;
    const Matrix<T> dx = needs_input_gradient ? tensors_.InputGradient(t, i) : Matrix<T>();
    if (behind_relu) {
      HeadBackwardBehind<ReluFormula>(t, i, input, input, dx);
    } else if (behind_gelu) {
      HeadBackwardBehind<GeluFormula>(t, i, input, tensors_.View(tensors_.Memory(t, i - 2).output),
                                      dx);
    } else {
      HeadBackwardBehind<IdentityFormula>(t, i, input, input, dx);
    }
  }

  template <typename Formula>
  void HeadBackwardBehind(size_t t, size_t i, const Matrix<const T>& input,
                          const Matrix<const T>& saved, const Matrix<T>& dx) {
    const LayerPlan& layer = Layer(t, i);
    // The weight's gradient is followed by the bias's.
    const ColumnScratch scratch = tensors_.ColumnParts(input.columns + 1);
    executor_.ForEachCell(scratch.partial.rows, input.columns,
                          HeadBackwardCell<T, Formula>{
                              input, saved, tensors_.View(tensors_.Memory(t, i).output_gradient),
                              layer.Weight(weights_).data(), dx, scratch.partial});
    FinishColumns(executor_, scratch,
                  {tensors_.column_sums(), layer.Weight(tensors_.gradients()).data()});
  }

  template <typename Out>
  void AddBias(const Matrix<Out>& values, const LayerPlan& layer, bool relu) {
    executor_.ForEachCell(values.rows, values.columns,
                          AddBiasCell<Out>{values, layer.Bias(weights_).data(), relu});
  }

  // weight_gradient = input^T dy; bias_gradient, unless null, = the sum of dy's rows. One that is
  // not aligned is copied from aligned memory, which costs less than summing dy in kernels.
  void WeightGradient(const Matrix<const T>& input, const Matrix<const T>& dy,
                      const MatrixView<float>& weight_gradient, float* bias_gradient) {
    Gemm<T, float> gemm{.a = input,
                        .a_transposed = true,
                        .b = dy,
                        .depth = input.rows,
                        .d = {weight_gradient.data(), weight_gradient.rows(),
                              weight_gradient.columns(), weight_gradient.stride()}};
    const bool is_aligned = reinterpret_cast<uintptr_t>(bias_gradient) % kEpilogueAlignment == 0;
    if (bias_gradient != nullptr) {
      gemm.epilogue = Epilogue::kBiasGradient;
      gemm.bias_gradient = is_aligned ? bias_gradient : tensors_.column_values();
    }
    const bool is_done = executor_.Multiply(gemm);
    if (is_done && !is_aligned) {
      executor_.ForEachCell(
          1, dy.columns,
          ActivationCell<float, IdentityFormula>{RowOf<const float>(gemm.bias_gradient, dy.columns),
                                                 RowOf(bias_gradient, dy.columns)});
    } else if (!is_done && bias_gradient != nullptr) {
      SumColumns(executor_, ValueTerm<T>{dy}, dy.rows, tensors_.ColumnParts(dy.columns),
                 {tensors_.column_sums(), bias_gradient});
    }
  }

  const ModelPlan& plan_;
  Executor& executor_;
  Tensors<T>& tensors_;
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
