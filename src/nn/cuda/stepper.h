#pragma once

#include <span>

#include "nn/cpu/optimizer.h"
#include "nn/cuda/batch_norm_kernels.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/cuda/tensors.h"

namespace simurgh::cuda {

// Updates weights, their copies for products, their average and the running statistics. The device
// decides whether the step counts and counts the steps in the state.
//
// Threads: one owner.
template <typename Executor, typename T>
class Stepper {
 public:
  Stepper(const ModelPlan& plan, const DenseOptimizerConfig& config, Executor& executor,
          Tensors<T>& tensors)
      : plan_(plan), config_(config), executor_(executor), tensors_(tensors) {}

  // Enqueues a step. request: in pinned memory, which must not change until the step has run.
  // report: in device memory; the step counts if its gradients are finite. Null: it counts. items:
  // of the last pass, of all ranks; see InBatchShape.
  void Apply(const StepRequest* request, const StepReport* report, size_t items) {
    StepScalars* const scalars = tensors_.scalars();
    const bool clips = config_.max_gradient_norm > 0.0F;
    const double* const squares =
        clips ? SumSquares(executor_, tensors_.gradients(), tensors_.sums(), tensors_.sums_next())
              : nullptr;
    const std::span<float> average = Average();
    executor_.ForEach(1, BeginStep{.request = request,
                                   .report = report,
                                   .squares = squares,
                                   .max_norm = config_.max_gradient_norm,
                                   .decoupled_weight_decay = config_.decoupled_weight_decay,
                                   .beta1 = config_.beta1,
                                   .beta2 = config_.beta2,
                                   .average_decay = config_.average_decay,
                                   .steps = HasMoments() ? Values().data() : nullptr,
                                   .average_steps = average.empty() ? nullptr : average.data(),
                                   .scalars = scalars});
    ApplyOptimizer(StepInputs<T>{.scalars = scalars,
                                 .weight_decay = config_.weight_decay,
                                 .weights = tensors_.parameters().data(),
                                 .gradients = tensors_.gradients().data(),
                                 .average = average.empty() ? nullptr : average.data() + 1,
                                 .copier = tensors_.copier()});
    if (plan_.counts_items && items > 0) {
      const CommitSlot commit{tensors_.pending_slots(), tensors_.pending_count(),
                              tensors_.item_frequency().data()};
      executor_.ForEach(items * ItemFrequency::kHashes, IfCounted{scalars, commit});
    }
    for (size_t t = 0; t < plan_.towers.size(); ++t) {
      for (const LayerPlan& layer : plan_.towers[t].layers) {
        const double* const rows = layer.inner.empty() ? &scalars->samples : tensors_.row_count(t);
        layer.ForStatistics([&](const LayerPlan& one) { UpdateRunning(one, rows); });
      }
    }
  }

  // Enqueues the copy of weights, in the layout of parameters(), for products.
  void CopyWeights(std::span<const float> weights) {
    executor_.ForEachCell(1, Count(), CopyWeight<T>{weights.data(), tensors_.copier()});
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

 private:
  using Kind = DenseOptimizerConfig::Kind;

  size_t Count() const { return plan_.parameter_count; }
  bool HasMoments() const { return config_.kind == Kind::kAdam || config_.kind == Kind::kLamb; }

  // Calls a kernel for `count` parameters if the step counts.
  template <typename Kernel>
  void Step(size_t count, const Kernel& kernel) {
    executor_.ForEachCell(1, count, IfCounted{tensors_.scalars(), kernel});
  }

  void ApplyOptimizer(const StepInputs<T>& in) {
    float* const values = Values().data();
    switch (config_.kind) {
      case Kind::kSgd:
        if (Values().empty()) return Step(Count(), SgdStep<T>{in});
        return Step(Count(), MomentumStep<T>{in, config_.momentum, config_.nesterov, values});
      case Kind::kAdagrad:
        return Step(Count(), AdagradStep<T>{in, config_.epsilon, values});
      case Kind::kAdam:
        return Step(Count(), AdamStep<T>{in, MomentsIn(values)});
      case Kind::kLamb:
        return ApplyLamb(in, MomentsIn(values));
    }
  }

  MomentBuffers MomentsIn(float* values) const {
    return {config_.beta1, config_.beta2, config_.epsilon, values + 1, values + 1 + Count()};
  }

  void ApplyLamb(const StepInputs<T>& in, const MomentBuffers& moments) {
    float* directions = tensors_.directions().data();
    Step(Count(), LambDirection<T>{in, moments, config_.decoupled_weight_decay, directions});
    for (const ColumnRange& block : plan_.parameter_blocks) {
      const std::span<const float> weights(in.weights + block.first, block.count);
      const std::span<const float> moves(directions + block.first, block.count);
      const double* weight_squares =
          SumSquares(executor_, weights, tensors_.sums(), tensors_.sums_next());
      const double* direction_squares = SumSquares(executor_, moves, tensors_.sums() + kSquareParts,
                                                   tensors_.sums_next() + kSquareParts);
      Step(block.count,
           LambMove<T>{in, block.first, weight_squares, direction_squares, directions});
    }
  }

  void UpdateRunning(const LayerPlan& layer, const double* rows) {
    const std::span<float> batch = tensors_.batch_statistics();
    const std::span<float> running = tensors_.running_statistics();
    executor_.ForEach(
        layer.output_width,
        IfCounted{tensors_.scalars(),
                  UpdateRunningStatistics{layer.config.momentum, rows, layer.Mean(batch).data(),
                                          layer.Variance(batch).data(), layer.Mean(running).data(),
                                          layer.Variance(running).data()}});
  }

  const ModelPlan& plan_;
  const DenseOptimizerConfig& config_;
  Executor& executor_;
  Tensors<T>& tensors_;
};

}  // namespace simurgh::cuda
