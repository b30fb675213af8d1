#pragma once

#include <span>

#include "nn/cuda/attention.h"
#include "nn/cuda/column_layers.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/interaction_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/piece_kernels.h"
#include "nn/cuda/products.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/self_attention.h"
#include "nn/cuda/sequence_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Forward and backward passes of single layers. t, i: indices of the tower and of its layer.
//
// Threads: one owner.
template <typename Executor, typename T>
class Layers {
 public:
  // seed: see DenseNetworkOptions.
  Layers(const ModelPlan& plan, uint64_t seed, Executor& executor, Tensors<T>& tensors)
      : plan_(plan),
        seed_(seed),
        executor_(executor),
        tensors_(tensors),
        columns_(executor, tensors),
        products_(plan, executor, tensors),
        attention_(plan, executor, tensors),
        self_attention_(plan, executor, tensors) {}

  // weights: in the layout of parameters(); products use their copies in tensors.
  void TakeWeights(std::span<const float> weights) {
    columns_.UseWeights(weights);
    products_.UseWeights(weights);
    attention_.UseWeights(weights);
    self_attention_.UseWeights(weights);
  }

  // ranks: null in prediction.
  void Forward(size_t t, size_t i, const RankPass* ranks) {
    const bool training = ranks != nullptr;
    const LayerPlan& layer = plan_.towers[t].layers[i];
    const LayerMemory& memory = tensors_.Memory(t, i);
    const Matrix<const T> input = Input(t, i);
    switch (layer.config.kind) {
      case LayerConfig::Kind::kLinear:
        if (!IsHead(plan_, t, i)) return products_.LinearForward(t, i, input, training);
        if (plan_.IsLogit(t, i)) return;  // See Finish.
        return products_.template HeadForward<T>(t, i, input, NoNext());
      case LayerConfig::Kind::kCross:
        return products_.CrossForward(t, i, input);
      case LayerConfig::Kind::kBatchNorm:
        return columns_.BatchNormForward(layer, input, tensors_.View(memory.output),
                                         CountOf(input, ranks), ranks);
      case LayerConfig::Kind::kRelu:
        if (!memory.is_fused)
          Cells(ActivationCell<T, ReluFormula>{input, tensors_.View(memory.output)}, input);
        return;
      case LayerConfig::Kind::kGelu:
        if (!memory.is_fused_gelu)
          Cells(ActivationCell<T, GeluFormula>{input, tensors_.View(memory.output)}, input);
        return;
      case LayerConfig::Kind::kSigmoid:
        return Cells(ActivationCell<T, SigmoidFormula>{input, tensors_.View(memory.output)}, input);
      case LayerConfig::Kind::kDropout:
        if (training && layer.config.rate > 0.0F) {
          return Cells(DropCell<T>{MaskOf(layer), tensors_.dropout_step(), input,
                                   tensors_.View(memory.output)},
                       input);
        }
        if (!layer.is_in_place) Cells(CopyCell<T, T>{input, tensors_.View(memory.output)}, input);
        return;
      case LayerConfig::Kind::kSilu:
        return Cells(ActivationCell<T, SiluFormula>{input, tensors_.View(memory.output)}, input);
      case LayerConfig::Kind::kTanh:
        return Cells(ActivationCell<T, TanhFormula>{input, tensors_.View(memory.output)}, input);
      case LayerConfig::Kind::kGate:
        return Cells(ActivationCell<T, GateFormula>{input, tensors_.View(memory.output)}, input);
      case LayerConfig::Kind::kPrelu:
        return columns_.PreluForward(layer, input, tensors_.View(memory.output));
      case LayerConfig::Kind::kDice:
        return columns_.DiceForward(layer, input, tensors_.View(memory.output), AllRows(),
                                    CountOf(input, ranks), ranks);
      case LayerConfig::Kind::kLayerNorm:
        return columns_.LayerNormForward(layer, input,
                                         tensors_.template ViewAs<float>(memory.row_values),
                                         tensors_.View(memory.output));
      case LayerConfig::Kind::kProduct: {
        const Matrix<T> output = tensors_.View(memory.output);
        return Cells(ProductCell<T>{input, output}, output);
      }
      case LayerConfig::Kind::kBilinear:
        return products_.BilinearForward(t, i, input);
      case LayerConfig::Kind::kJoint: {
        const Matrix<T> output = tensors_.View(memory.output);
        return Cells(JointCell<T>{input, output}, output);
      }
      case LayerConfig::Kind::kL2Norm:
        return executor_.ForEach(input.rows, L2NormRow<T>{input, tensors_.View(memory.output)});
      case LayerConfig::Kind::kSoftmax:
        return executor_.ForEach(input.rows, SoftmaxRow<T>{input, tensors_.View(memory.output)});
      case LayerConfig::Kind::kMix: {
        const Matrix<T> output = tensors_.View(memory.output);
        return Cells(MixCell<T>{input, layer.config.width, output}, output);
      }
      case LayerConfig::Kind::kDot:
        if (plan_.IsLogit(t, i)) {
          const size_t dim = layer.config.width;
          return executor_.ForEachSum(
              input.rows, ProductOfRows<T, float>{input.Columns(0, dim), input.Columns(dim, dim),
                                                  tensors_.template ViewAs<float>(memory.output)});
        }
        return Dot(executor_, input, layer.config.width, tensors_.View(memory.output));
      case LayerConfig::Kind::kFm:
        return executor_.ForEachSum(
            input.rows, FmRow<T>{input, tensors_.template ViewAs<float>(memory.vector_sums),
                                 tensors_.View(memory.output)});
      case LayerConfig::Kind::kSum:
        if (plan_.IsLogit(t, i)) {
          return executor_.ForEachSum(
              input.rows * layer.output_width,
              SumOfPart<T, float>{input, tensors_.template ViewAs<float>(memory.output)});
        }
        return executor_.ForEachSum(input.rows * layer.output_width,
                                    SumOfPart<T, T>{input, tensors_.View(memory.output)});
      case LayerConfig::Kind::kMean: {
        const Matrix<T> output = tensors_.View(memory.output);
        return Cells(MeanCell<T>{RowsOf(layer, input), output}, output);
      }
      case LayerConfig::Kind::kLast: {
        const Matrix<T> output = tensors_.View(memory.output);
        return Cells(LastCell<T>{RowsOf(layer, input), output}, output);
      }
      case LayerConfig::Kind::kAttention:
        return attention_.Forward(t, i, input, ranks);
      case LayerConfig::Kind::kSelfAttention:
        return self_attention_.Forward(t, i, input);
    }
  }

  // Calls next(row) for each row, when the logits of the rows are complete.
  template <typename Next>
  void Finish(const Next& next) {
    const size_t t = plan_.towers.size() - 1;
    const size_t i = plan_.top().layers.size() - 1;
    if (IsHead(plan_, t, i)) return products_.template HeadForward<float>(t, i, Input(t, i), next);
    executor_.ForEach(tensors_.rows(), next);
  }

  // Requires the gradient of the layer's output. Computes the gradient of its parameters and of its
  // input. The first layer of a tower may need none of its input.
  void Backward(size_t t, size_t i, const RankPass& ranks) {
    BackwardOf(t, i, ranks);
    ReportGradients(plan_.towers[t].layers[i], ranks);
  }

  // The forward and backward passes of a rank without samples.
  void TakePartForward(size_t t, size_t i, const RankPass& ranks) {
    const LayerPlan& layer = plan_.towers[t].layers[i];
    if (layer.has_statistics) columns_.TakePartForward(layer, CountOf({}, &ranks), ranks);
    if (layer.config.kind == LayerConfig::Kind::kAttention) attention_.TakePartForward(t, i, ranks);
  }
  void TakePartBackward(size_t t, size_t i, const RankPass& ranks) {
    const LayerPlan& layer = plan_.towers[t].layers[i];
    if (layer.has_statistics) columns_.TakePartBackward(layer, ranks);
    if (layer.config.kind == LayerConfig::Kind::kAttention)
      attention_.TakePartBackward(t, i, ranks);
    ReportGradients(layer, ranks);
  }

 private:
  void BackwardOf(size_t t, size_t i, const RankPass& ranks) {
    const TowerPlan& tower = plan_.towers[t];
    const LayerPlan& layer = tower.layers[i];
    const LayerMemory& memory = tensors_.Memory(t, i);
    const Matrix<const T> input = Input(t, i);
    const Matrix<const T> dy = tensors_.View(memory.output_gradient);
    const bool needs_input_gradient = i > 0 || tower.needs_input_gradient;
    // The first layer of a tower may have no memory for an input gradient.
    const Matrix<T> dx = needs_input_gradient ? tensors_.InputGradient(t, i) : Matrix<T>();
    // Layers that compute gradients of parameters, too.
    switch (layer.config.kind) {
      case LayerConfig::Kind::kLinear:
        return products_.LinearBackward(t, i, input, needs_input_gradient);
      case LayerConfig::Kind::kCross:
        return products_.CrossBackward(t, i, input, needs_input_gradient);
      case LayerConfig::Kind::kBilinear:
        return products_.BilinearBackward(t, i, input, needs_input_gradient);
      case LayerConfig::Kind::kAttention:
        return attention_.Backward(t, i, input, ranks);
      case LayerConfig::Kind::kSelfAttention:
        return self_attention_.Backward(t, i, input);
      case LayerConfig::Kind::kBatchNorm:
        return columns_.BatchNormBackward(layer, input, dy, CountOf(input, &ranks), ranks, dx);
      case LayerConfig::Kind::kPrelu:
        return columns_.PreluBackward(layer, input, dy, dx);
      case LayerConfig::Kind::kDice:
        return columns_.DiceBackward(layer, input, dy, AllRows(), CountOf(input, &ranks), ranks,
                                     dx);
      case LayerConfig::Kind::kLayerNorm:
        return columns_.LayerNormBackward(layer, input, dy,
                                          tensors_.template ViewAs<float>(memory.row_values), dx);
      default:
        if (needs_input_gradient) InputBackward(t, i, input, dy, dx);
    }
  }

  // The backward pass of a layer without parameters, whose input has a gradient.
  void InputBackward(size_t t, size_t i, const Matrix<const T>& input, const Matrix<const T>& dy,
                     const Matrix<T>& dx) {
    const TowerPlan& tower = plan_.towers[t];
    const LayerPlan& layer = tower.layers[i];
    const LayerMemory& memory = tensors_.Memory(t, i);
    switch (layer.config.kind) {
      case LayerConfig::Kind::kRelu:
        if (memory.is_fused && IsLinear(t, i + 1)) return;
        if (DropsInPlace(t, i + 1)) return;
        return Cells(ActivationBackwardCell<T, ReluFormula>{tensors_.View(memory.output), dy, dx},
                     dx);
      case LayerConfig::Kind::kGelu:
        if (memory.is_fused_gelu && IsLinear(t, i + 1)) return;
        return Cells(ActivationBackwardCell<T, GeluFormula>{input, dy, dx}, dx);
      case LayerConfig::Kind::kSigmoid:
        return Cells(
            ActivationBackwardCell<T, SigmoidFormula>{tensors_.View(memory.output), dy, dx}, dx);
      case LayerConfig::Kind::kDropout:
        if (!DropsInPlace(t, i)) {
          if (layer.config.rate == 0.0F) return;
          return Cells(DropCell<T>{MaskOf(layer), tensors_.dropout_step(), dy, dx}, dx);
        }
        // Includes the relu before it, which may need no input gradient.
        if (i > 1 || tower.needs_input_gradient) {
          Cells(ActivationBackwardCell<T, DroppedReluFormula>{tensors_.View(memory.output),
                                                              dy,
                                                              tensors_.InputGradient(t, i - 1),
                                                              {MaskOf(layer).scale}},
                dx);
        }
        return;
      case LayerConfig::Kind::kSilu:
        return Cells(ActivationBackwardCell<T, SiluFormula>{input, dy, dx}, dx);
      case LayerConfig::Kind::kTanh:
        return Cells(ActivationBackwardCell<T, TanhFormula>{tensors_.View(memory.output), dy, dx},
                     dx);
      case LayerConfig::Kind::kGate:
        return Cells(ActivationBackwardCell<T, GateFormula>{tensors_.View(memory.output), dy, dx},
                     dx);
      case LayerConfig::Kind::kProduct:
        return Cells(ProductBackwardCell<T>{input, dy, dx}, dy);
      case LayerConfig::Kind::kJoint:
        return Cells(JointBackwardCell<T>{input, dy, dx}, dx);
      case LayerConfig::Kind::kL2Norm:
        return executor_.ForEach(dx.rows, L2NormBackwardRow<T>{input, dy, dx});
      case LayerConfig::Kind::kSoftmax:
        return executor_.ForEach(dx.rows,
                                 SoftmaxBackwardRow<T>{tensors_.View(memory.output), dy, dx});
      case LayerConfig::Kind::kMix: {
        const size_t terms = layer.config.width;
        executor_.ForEachSum(dx.rows * terms, MixGateGradient<T>{input, terms, dy, dx});
        return executor_.ForEachCell(dx.rows, terms * dy.columns,
                                     MixBackwardCell<T>{input, terms, dy, dx});
      }
      case LayerConfig::Kind::kDot:
        return DotBackward(executor_, input, layer.config.width, dy, dx);
      case LayerConfig::Kind::kFm:
        return Cells(
            FmBackwardCell<T>{input, tensors_.template ViewAs<float>(memory.vector_sums), dy, dx},
            dx);
      case LayerConfig::Kind::kSum:
        return Cells(SumBackwardCell<T>{dy, dx}, dx);
      case LayerConfig::Kind::kMean:
        return Cells(MeanBackwardCell<T>{RowsOf(layer, input), dy, dx}, dx);
      case LayerConfig::Kind::kLast:
        return Cells(LastBackwardCell<T>{RowsOf(layer, input), dy, dx}, dx);
      case LayerConfig::Kind::kLinear:
      case LayerConfig::Kind::kCross:
      case LayerConfig::Kind::kBilinear:
      case LayerConfig::Kind::kAttention:
      case LayerConfig::Kind::kSelfAttention:
      case LayerConfig::Kind::kBatchNorm:
      case LayerConfig::Kind::kPrelu:
      case LayerConfig::Kind::kDice:
      case LayerConfig::Kind::kLayerNorm:
        return;  // See BackwardOf.
    }
  }

  // The backward pass of a linear layer includes that of the activation before it.
  bool IsLinear(size_t t, size_t i) const {
    return i < plan_.towers[t].layers.size() &&
           plan_.towers[t].layers[i].config.kind == LayerConfig::Kind::kLinear;
  }

  // Returns whether the layer drops values in the memory of the relu before it.
  bool DropsInPlace(size_t t, size_t i) const {
    if (i >= plan_.towers[t].layers.size()) return false;
    const LayerPlan& layer = plan_.towers[t].layers[i];
    return layer.is_in_place && layer.config.rate > 0.0F;
  }
  static SequenceRows<T> RowsOf(const LayerPlan& layer, const Matrix<const T>& input) {
    return {input, layer.places, layer.row_width};
  }
  DropoutMask MaskOf(const LayerPlan& layer) const {
    return DropoutMask::Of(layer.config.rate, DropoutLayer(seed_, layer.stream));
  }

  Matrix<const T> Input(size_t t, size_t i) const {
    return tensors_.View(i == 0 ? tensors_.Memory(t).input : tensors_.Memory(t, i - 1).output);
  }

  // Calls kernel for each cell of a matrix of that shape.
  template <typename Kernel, typename Shape>
  void Cells(const Kernel& kernel, const Shape& shape) {
    executor_.ForEachCell(shape.rows, shape.columns, kernel);
  }

  // Requires all gradients of the layer, which may still be scaled.
  void ReportGradients(const LayerPlan& layer, const RankPass& ranks) {
    if (layer.parameter_count == 0) return;
    if constexpr (kIsScaled<T>) {
      float* gradients = tensors_.gradients().data() + layer.parameter_offset;
      const Matrix<float> row = RowOf(gradients, layer.parameter_count);
      executor_.ForEachCell(1, row.columns, Unscale{tensors_.loss_scale(), row});
    }
    if (ranks.on_gradients) ranks.on_gradients(layer.parameter_offset, layer.parameter_count);
  }

  // Returns the number of samples in the statistics of batch norm and dice. ranks: null in
  // prediction.
  static RowCount CountOf(const Matrix<const T>& input, const RankPass* ranks) {
    const bool shares = ranks != nullptr && ranks->sum_statistics;
    return {.known = static_cast<double>(shares ? ranks->samples : input.rows)};
  }

  const ModelPlan& plan_;
  const uint64_t seed_;
  Executor& executor_;
  Tensors<T>& tensors_;
  ColumnLayers<Executor, T> columns_;
  Products<Executor, T> products_;
  Attention<Executor, T> attention_;
  SelfAttention<Executor, T> self_attention_;
};

}  // namespace simurgh::cuda
