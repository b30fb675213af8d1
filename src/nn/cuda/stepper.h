#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "nn/cpu/optimizer.h"
#include "nn/cuda/batch_norm_kernels.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Updates weights, their average and the running statistics. Values that change from step to step
// are copied to the device first, so the rest is repeated work.
//
// Threads: one owner.
template <typename Executor, typename T>
class Stepper {
 public:
  Stepper(const ModelPlan& plan, const DenseOptimizerConfig& config, Executor& executor,
          Tensors<T>& tensors)
      : plan_(plan), config_(config), executor_(executor), tensors_(tensors) {}

  // Scalars of the next step, for a batch of `rows` samples. Bias corrections are computed as in
  // the CPU backend, in f64 from the number of steps as a float.
  StepScalars Next(float learning_rate, size_t rows) {
    steps_ += 1.0F;
    StepScalars scalars;
    scalars.rate = learning_rate;
    scalars.keep = 1.0F - learning_rate * config_.decoupled_weight_decay;
    scalars.steps = scalars.average_steps = steps_;
    const double steps = steps_;
    scalars.correction = static_cast<float>(1.0 / (1.0 - std::pow(double{config_.beta1}, steps)));
    scalars.root_correction =
        static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(double{config_.beta2}, steps)));
    scalars.average_kept = std::min(config_.average_decay, (1.0F + steps_) / (10.0F + steps_));
    const auto count = static_cast<double>(rows);
    scalars.unbias = static_cast<float>(rows > 1 ? count / (count - 1) : 1.0);
    return scalars;
  }

  // Enqueues the step with the scalars on the device. has_statistics: batch norm has statistics.
  void Apply(bool has_statistics) {
    StepScalars* scalars = tensors_.scalars();
    if (config_.max_gradient_norm > 0.0F) {
      const double* squares = SumSquares(executor_, tensors_.gradients().first(Count()),
                                         tensors_.sums(), tensors_.sums_next());
      executor_.ForEach(1, ClipNorm{squares, config_.max_gradient_norm, scalars});
    }
    ApplyOptimizer();
    const std::span<float> average = Average();
    if (!average.empty()) {
      executor_.ForEach(1, StoreScalar{&scalars->average_steps, average.data()});
      executor_.ForEach(Count(), AverageStep{scalars, Weights(), average.data() + 1});
    }
    if (!has_statistics) return;
    for (const TowerPlan& tower : plan_.towers) {
      for (const LayerPlan& layer : tower.layers) UpdateRunning(layer);
    }
  }

  // The optimizer's values in tensors_.state(); see DenseNetwork::state.
  std::span<float> Values() const {
    return tensors_.state().subspan(plan_.statistics_count,
                                    cpu::OptimizerStateSize(config_, Count()));
  }
  std::span<float> Average() const {
    return tensors_.state().subspan(plan_.statistics_count + Values().size(),
                                    cpu::WeightAverageSize(config_.average_decay, Count()));
  }

  // Continues with the number of steps in a state; see DenseNetwork::state.
  void Resume(std::span<const float> state) {
    const bool counts = config_.kind == Kind::kAdam || config_.kind == Kind::kLamb;
    if (!counts && Average().empty()) return;
    steps_ = state[plan_.statistics_count + (counts ? 0 : Values().size())];
  }

 private:
  using Kind = DenseOptimizerConfig::Kind;

  size_t Count() const { return plan_.parameter_count; }
  float* Weights() const { return tensors_.parameters().data(); }

  void ApplyOptimizer() {
    const StepInputs in{tensors_.scalars(), config_.weight_decay, Weights(),
                        tensors_.gradients().data()};
    float* values = Values().data();
    switch (config_.kind) {
      case Kind::kSgd:
        if (Values().empty()) return executor_.ForEach(Count(), SgdStep{in});
        return executor_.ForEach(Count(),
                                 MomentumStep{in, config_.momentum, config_.nesterov, values});
      case Kind::kAdagrad:
        return executor_.ForEach(Count(), AdagradStep{in, config_.epsilon, values});
      case Kind::kAdam:
        return executor_.ForEach(Count(), AdamStep{in, TakeMoments(values)});
      case Kind::kLamb:
        return ApplyLamb(in, TakeMoments(values));
    }
  }

  MomentBuffers TakeMoments(float* values) {
    executor_.ForEach(1, StoreScalar{&tensors_.scalars()->steps, values});
    return {config_.beta1, config_.beta2, config_.epsilon, values + 1, values + 1 + Count()};
  }

  void ApplyLamb(const StepInputs& in, const MomentBuffers& moments) {
    float* directions = tensors_.directions().data();
    executor_.ForEach(Count(),
                      LambDirection{in, moments, config_.decoupled_weight_decay, directions});
    for (const ColumnRange& block : plan_.parameter_blocks) {
      const std::span<const float> weights(Weights() + block.first, block.count);
      const std::span<const float> moves(directions + block.first, block.count);
      const double* weight_squares =
          SumSquares(executor_, weights, tensors_.sums(), tensors_.sums_next());
      const double* direction_squares = SumSquares(executor_, moves, tensors_.sums() + kSquareParts,
                                                   tensors_.sums_next() + kSquareParts);
      executor_.ForEach(block.count, LambMove{tensors_.scalars(), weight_squares, direction_squares,
                                              moves.data(), Weights() + block.first});
    }
  }

  void UpdateRunning(const LayerPlan& layer) {
    if (layer.config.kind != LayerConfig::Kind::kBatchNorm) return;
    const std::span<float> batch = tensors_.batch_statistics();
    const std::span<float> running = tensors_.running_statistics();
    executor_.ForEach(
        layer.output_width,
        UpdateRunningStatistics{layer.config.momentum, &tensors_.scalars()->unbias,
                                layer.Mean(batch).data(), layer.Variance(batch).data(),
                                layer.Mean(running).data(), layer.Variance(running).data()});
  }

  const ModelPlan& plan_;
  const DenseOptimizerConfig& config_;
  Executor& executor_;
  Tensors<T>& tensors_;
  float steps_ = 0;
};

}  // namespace simurgh::cuda
