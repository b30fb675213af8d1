#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nn/cpu/workspace.h"
#include "nn/model_plan.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/nn/dense_network.h"

namespace simurgh::cpu {

// The network on the CPU. Inputs are copied into buffers of its own, so that results depend neither
// on the caller's addresses nor on his strides.
class CpuNetwork final : public DenseNetwork {
 public:
  CpuNetwork(ModelPlan plan, std::vector<TaskConfig> tasks, const DenseNetworkOptions& options);

  StatusOr<BatchResult> ForwardBackward(MatrixView<const float> dense,
                                        MatrixView<const float> embeddings,
                                        std::span<const float> labels,
                                        MatrixView<float> embedding_gradient,
                                        std::span<float> probabilities,
                                        const RankStep& step) override;
  StatusOr<BatchResult> ForwardBackwardOn(BatchBlock& block, MatrixView<const float> dense,
                                          std::span<const float> labels,
                                          std::span<float> probabilities, const RankStep& step,
                                          const std::function<void()>& meanwhile) override;
  Status PredictOn(BatchBlock& block, MatrixView<const float> dense,
                   std::span<float> probabilities) override;
  Status ApplyGradients(float learning_rate) override;
  Status Predict(MatrixView<const float> dense, MatrixView<const float> embeddings,
                 std::span<float> probabilities) override;

  BlockPool& blocks() override { return *blocks_; }

  std::span<float> parameters() override { return parameters_.as<float>(plan_.parameter_count); }
  std::span<float> gradients() override { return gradients_.as<float>(plan_.parameter_count); }
  std::span<float> statistics() override { return running_statistics(); }
  std::span<const float> state() const override {
    return state_.as<const float>(state_.size() / sizeof(float));
  }

 private:
  // What this thread computes with from now on.
  void SetUpThread() const;
  // Of a block of rows: its embeddings.
  void PoolRows(BatchBlock& block);

  enum class Mode { kTrain, kPredict };

  // What is known of gradients_ and batch_statistics_.
  enum class Step { kNone, kReady, kNotFinite };

  struct Inputs {
    MatrixView<const float> dense;
    MatrixView<const float> embeddings;
  };

  void CheckInputs(const Inputs& inputs, size_t rows) const;

  // Leave their results in the workspace. rank_step: null in prediction.
  Status Forward(const Inputs& inputs, Mode mode, const RankStep* rank_step);
  Status Backward(MatrixView<float> embedding_gradient, const RankStep& rank_step);
  // A step without samples.
  Status TakePart(const RankStep& rank_step);

  // That the layer's gradients are done. Looks at them before, as they may be other ranks' sums,
  // and another thread's, from then on.
  void ReportGradients(const LayerPlan& layer, const RankStep& rank_step);

  void GatherInput(const Inputs& inputs, const TowerPlan& tower);
  void ScatterInputGradient(const TowerPlan& tower, MatrixView<float> embedding_gradient);

  // Of one layer; see cpu_network_layers.cc.
  Status LayerForward(const TowerPlan& tower, const LayerPlan& layer, Mode mode,
                      MatrixView<const float> input, const RankStep* rank_step);
  Status BatchNormLayerForward(const LayerPlan& layer, Mode mode, MatrixView<const float> input,
                               const RankStep* rank_step);
  // needs_input_gradient: false lets a layer leave input_gradient as it is.
  Status LayerBackward(const TowerPlan& tower, const LayerPlan& layer,
                       MatrixView<const float> input, MatrixView<float> input_gradient,
                       bool needs_input_gradient, const RankStep& rank_step);
  Status CrossLayerBackward(const TowerPlan& tower, const LayerPlan& layer,
                            MatrixView<const float> input, MatrixView<float> input_gradient,
                            bool needs_input_gradient, const RankStep& rank_step);
  Status BatchNormLayerBackward(const LayerPlan& layer, MatrixView<const float> input,
                                MatrixView<float> input_gradient, const RankStep& rank_step);

  // state() is the running statistics followed by the optimizer's values and the weights' average.
  std::span<float> running_statistics() { return state_.as<float>(plan_.statistics_count); }
  std::span<float> optimizer_state();
  std::span<float> weight_average();
  // What forward works with.
  std::span<const float> Weights(Mode mode);
  std::span<float> batch_statistics() {
    return batch_statistics_.as<float>(plan_.statistics_count);
  }

  std::span<float> interaction_scratch() {
    return interaction_scratch_.as<float>(interaction_scratch_.size() / sizeof(float));
  }

  const ModelPlan plan_;
  const std::vector<TaskConfig> tasks_;
  const DenseNetworkOptions options_;
  const std::unique_ptr<BlockPool> blocks_;
  const RowCodec rows_;
  AlignedBuffer parameters_;
  AlignedBuffer gradients_;
  AlignedBuffer state_;
  AlignedBuffer batch_statistics_;  // Laid out as the running ones.
  AlignedBuffer interaction_scratch_;
  Workspace workspace_;
  size_t step_rows_ = 0;  // Of the batch that batch_statistics_ are of.
  Step step_ = Step::kNone;
  bool gradients_finite_ = true;  // Those that the latest pass has reported.
};

}  // namespace simurgh::cpu
