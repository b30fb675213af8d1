#pragma once

#include <span>

#include "nn/cuda/batch_norm_kernels.h"
#include "nn/cuda/layer_norm_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/map_kernels.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/slope_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Layers with parameters of each column: prelu, layer_norm, batch_norm and dice. x, dx: input and
// its gradient; y, dy: output and its gradient. A backward pass computes no dx without memory.
//
// Rows: AllRows, or the places of a batch that have a row (AttentionInput). Statistics are of these
// rows, `count` is their number on all ranks, and the others have no gradient.
//
// Threads: one owner.
template <typename Executor, typename T>
class ColumnLayers {
 public:
  ColumnLayers(Executor& executor, Tensors<T>& tensors) : executor_(executor), tensors_(tensors) {}

  // weights: in the layout of parameters().
  void UseWeights(std::span<const float> weights) { weights_ = weights; }

  void PreluForward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<T>& y) {
    MapCells(executor_, y, PreluValue{layer.Slope(weights_).data()}, x);
  }
  void PreluBackward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<const T>& dy,
                     const Matrix<T>& dx) {
    Sum({Sums(), layer.Slope(tensors_.gradients()).data()}, PreluSlopeGradient{}, x, dy);
    if (dx.data == nullptr) return;
    MapCells(executor_, dx, PreluGradient{layer.Slope(weights_).data()}, x, dy);
  }

  // rows: (rows of x, kLayerNormColumns); kept for the backward pass.
  void LayerNormForward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<float>& rows,
                        const Matrix<T>& y) {
    executor_.ForEachSum(x.rows, RowMean<T>{x, rows});
    executor_.ForEachSum(x.rows, RowDeviation<T>{x, layer.config.epsilon, rows});
    MapCells(executor_, y,
             LayerNormValue{rows, layer.Scale(weights_).data(), layer.Shift(weights_).data()}, x);
  }
  void LayerNormBackward(const LayerPlan& layer, const Matrix<const T>& x,
                         const Matrix<const T>& dy, const Matrix<float>& rows,
                         const Matrix<T>& dx) {
    const std::span<float> gradients = tensors_.gradients();
    Sum({Sums(), layer.Scale(gradients).data()}, LayerNormScaleGradient{rows}, x, dy);
    Sum({Sums(), layer.Shift(gradients).data()}, Itself{}, dy);
    if (dx.data == nullptr) return;
    const float* const scale = layer.Scale(weights_).data();
    executor_.ForEachSum(x.rows, RowGradientMean<T, kRowOffset>{x, dy, scale, rows});
    executor_.ForEachSum(x.rows, RowGradientMean<T, kRowSlope>{x, dy, scale, rows});
    MapCells(executor_, dx, LayerNormGradient{rows, scale}, x, dy);
  }

  // ranks: null in prediction.
  void BatchNormForward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<T>& y,
                        const RowCount& count, const RankPass* ranks) {
    FindStatistics(layer, x, AllRows(), count, ranks);
    MapCells(executor_, y, BatchNormValue{BatchNormOf(layer, ranks != nullptr)}, x);
  }
  void BatchNormBackward(const LayerPlan& layer, const Matrix<const T>& x,
                         const Matrix<const T>& dy, const RowCount& count, const RankPass& ranks,
                         const Matrix<T>& dx) {
    const std::span<float> gradients = tensors_.gradients();
    const BatchNormParameters of = BatchNormOf(layer, true);
    Sum({Sums(), layer.Shift(gradients).data()}, Itself{}, dy);
    Sum({Sums() + x.columns, layer.Scale(gradients).data()}, BatchNormScaleGradient{of}, x, dy);
    SumGradientsOverRanks(2 * x.columns, ranks);
    if (dx.data == nullptr) return;
    const float* const means = MeansOfGradients(x.columns, count);
    MapCells(executor_, dx, BatchNormGradient{of, means, means + x.columns}, x, dy);
  }

  template <typename Rows>
  void DiceForward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<T>& y,
                   const Rows& rows, const RowCount& count, const RankPass* ranks) {
    FindStatistics(layer, x, rows, count, ranks);
    MapCells(executor_, y, DiceValue{DiceOf(layer, ranks != nullptr)}, x);
  }
  // Requires dy = 0 in places without a row.
  template <typename Rows>
  void DiceBackward(const LayerPlan& layer, const Matrix<const T>& x, const Matrix<const T>& dy,
                    const Rows& rows, const RowCount& count, const RankPass& ranks,
                    const Matrix<T>& dx) {
    const DiceParameters of = DiceOf(layer, true);
    Sum({Sums(), layer.Slope(tensors_.gradients()).data()}, DiceTerm<DiceSum::kSlope>{of}, x, dy);
    Sum({Sums()}, DiceTerm<DiceSum::kNormalised>{of}, x, dy);
    Sum({Sums() + x.columns}, DiceTerm<DiceSum::kNormalisedTimesInput>{of}, x, dy);
    SumGradientsOverRanks(2 * x.columns, ranks);
    if (dx.data == nullptr) return;
    const float* const means = MeansOfGradients(x.columns, count);
    MapCells(executor_, dx, WhereHas<Rows, DiceGradient>{rows, {of, means, means + x.columns}}, x,
             dy);
  }

  // The passes of batch_norm or dice on a rank without samples.
  void TakePartForward(const LayerPlan& layer, const RowCount& count, const RankPass& ranks) {
    FindStatistics(layer, NoRows(layer), AllRows(), count, &ranks);
  }
  void TakePartBackward(const LayerPlan& layer, const RankPass& ranks) {
    const Matrix<const T> none = NoRows(layer);
    if (layer.config.kind == LayerConfig::Kind::kDice) {
      DiceBackward(layer, none, none, AllRows(), {}, ranks, {});
    } else {
      BatchNormBackward(layer, none, none, {}, ranks, {});
    }
  }

 private:
  double* Sums() const { return tensors_.column_sums(); }

  template <typename Function, typename... In>
  void Sum(const ColumnSums& to, const Function& function, const Matrix<const T>& first,
           const In&... others) {
    SumMap(executor_, tensors_.ColumnParts(first.columns, first.rows), to, function, first,
           others...);
  }

  static Matrix<const T> NoRows(const LayerPlan& layer) {
    return {nullptr, 0, layer.output_width, layer.output_width};
  }

  std::span<float> StatisticsOf(bool training) const {
    return training ? tensors_.batch_statistics() : tensors_.running_statistics();
  }
  const float* InverseOf(const LayerPlan& layer) const {
    return layer.Variance(tensors_.inverse_deviations()).data();
  }
  BatchNormParameters BatchNormOf(const LayerPlan& layer, bool training) const {
    return {.scale = layer.Scale(weights_).data(),
            .shift = layer.Shift(weights_).data(),
            .mean = layer.Mean(StatisticsOf(training)).data(),
            .inverse = InverseOf(layer)};
  }
  DiceParameters DiceOf(const LayerPlan& layer, bool training) const {
    return {.slope = layer.Slope(weights_).data(),
            .mean = layer.Mean(StatisticsOf(training)).data(),
            .inverse = InverseOf(layer)};
  }

  // Computes the batch's statistics in training, and inverse deviations.
  template <typename Rows>
  void FindStatistics(const LayerPlan& layer, const Matrix<const T>& x, const Rows& rows,
                      const RowCount& count, const RankPass* ranks) {
    const std::span<float> inverse = layer.Variance(tensors_.inverse_deviations());
    const float epsilon = layer.config.epsilon;
    if (ranks == nullptr) {
      const std::span<float> variance = layer.Variance(tensors_.running_statistics());
      return executor_.ForEach(x.columns,
                               InvertDeviation{variance.data(), epsilon, inverse.data()});
    }
    if (x.rows == 0 && !ranks->sum_statistics) return;
    const std::span<float> batch = tensors_.batch_statistics();
    float* const mean = layer.Mean(batch).data();
    Sum({Sums()}, WhereHas<Rows, Itself>{rows, {}}, x);
    SumOverRanks(x.columns, *ranks);
    executor_.ForEach(x.columns, FindMean{Sums(), count, mean});
    Sum({Sums()}, WhereHas<Rows, SquaredDistance>{rows, {mean}}, x);
    SumOverRanks(x.columns, *ranks);
    executor_.ForEach(x.columns, FinishVariance{Sums(), count, epsilon,
                                                layer.Variance(batch).data(), inverse.data()});
  }

  void SumOverRanks(size_t count, const RankPass& ranks) {
    if (ranks.sum_statistics) ranks.sum_statistics(Sums(), count);
  }

  // Sums gradients in column_sums(), whose scale may differ between ranks.
  void SumGradientsOverRanks(size_t count, const RankPass& ranks) {
    if (!ranks.sum_statistics) return;
    Rescale(count, &LossScale::inverse);
    SumOverRanks(count, ranks);
    Rescale(count, &LossScale::scale);
  }

  // Multiplies column_sums() by a factor of the loss scale.
  void Rescale(size_t count, float LossScale::* factor) {
    if constexpr (kIsScaled<T>) {
      executor_.ForEach(count, RescaleSum{&(tensors_.loss_scale()->*factor), Sums()});
    }
  }

  // Returns the means of two sums for each column.
  const float* MeansOfGradients(size_t columns, const RowCount& count) {
    executor_.ForEach(2 * columns, FindMean{Sums(), count, tensors_.column_values()});
    return tensors_.column_values();
  }

  Executor& executor_;
  Tensors<T>& tensors_;
  std::span<const float> weights_;
};

}  // namespace simurgh::cuda
