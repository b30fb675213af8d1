#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "embedding/row_codec.h"
#include "embedding/vector_codec.h"
#include "nn/cpu/attention.h"
#include "nn/cpu/in_batch_softmax.h"
#include "nn/cpu/predict_pass.h"
#include "nn/dense_network.h"
#include "nn/dense_tensors.h"
#include "nn/dropout.h"
#include "nn/model_plan.h"

namespace simurgh::cpu {

// The network on the CPU. It copies inputs into its own buffers, so results do not depend on the
// alignment or stride of the caller's memory.
class CpuNetwork final : public DenseNetwork {
 public:
  CpuNetwork(ModelPlan plan, std::vector<TaskConfig> tasks, const DenseNetworkOptions& options);

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override;
  Status ApplyGradients(float learning_rate) override;
  Status Predict(BatchBlock& block, MatrixView<const float> dense,
                 std::span<float> outputs) override;
  StatusOr<MatrixView<const float>> LastTowerInput() override;

  BlockPool& blocks() override { return *blocks_; }

  std::span<float> parameters() override { return parameters_.as<float>(plan_.parameter_count); }
  std::span<float> gradients() override { return gradients_.as<float>(plan_.parameter_count); }
  std::span<float> statistics() override { return running_statistics(); }
  std::span<const float> state() const override {
    return state_.as<const float>(state_.size() / sizeof(float));
  }
  std::vector<DenseTensor> tensors() const override {
    return TensorsOf(plan_, options_.optimizer, /*scales_loss=*/false);
  }
  Status Restore(std::span<const float> parameters, std::span<const float> state) override;
  Status CheckFinite() override {
    return CheckFiniteWeights(plan_, parameters(), running_statistics());
  }

 private:
  enum class Mode { kTrain, kPredict };

  // State of gradients_ and batch_statistics_.
  enum class Step { kNone, kReady, kNotFinite };

  // Checks the inputs, sets the calling thread's compute threads and precision, and fills the
  // embeddings of a block of rows.
  NetworkInputs Prepare(const BatchBlock& block, MatrixView<const float> dense, size_t rows) const;
  // Writes gradients that the block does not have in f32. Returns whether all are finite.
  bool EncodeGradients(BatchBlock& block, MatrixView<const float> gradients) const;

  // Compute a pass and write its results to the workspace.
  Status Forward(const NetworkInputs& inputs, const RankStep& rank_step);
  // Computes the gradients of all activations down to the embeddings, which do not wait for those
  // of weights. Batch norm's weights share sums with it.
  Status Backward(MatrixView<float> embedding_gradient, const RankStep& rank_step);
  // Computes the gradients of the weights after Backward, and reports them.
  Status BackwardWeights(const RankStep& rank_step);
  // Takes part in the ranks' sums in a step without samples.
  Status EmptyStep(const RankStep& rank_step);

  // Checks that the layer's gradients are finite, then reports them: afterwards another thread may
  // replace them by sums over the ranks.
  void ReportGradients(const LayerPlan& layer, const RankStep& rank_step);

  void ScatterInputGradient(const TowerPlan& tower, MatrixView<float> embedding_gradient);

  RowStatistics StatisticsOfRows(const LayerPlan& attention, const RankStep& rank_step) {
    return {batch_statistics(), rank_step.sum, history_rows_[attention.parameter_offset]};
  }
  // Batch norm or dice.
  Status StatisticsLayerForward(const LayerPlan& layer, MatrixView<const float> input,
                                const RankStep& rank_step);
  // A product that includes the backward pass of a relu, and of a dropout behind it, which scales
  // by `scale`.
  struct Activation {
    size_t layers = 0;  // Layers before the product's that it includes.
    float scale = 1.0F;
  };
  static Activation ActivationBefore(const TowerPlan& tower, size_t layer);
  DropoutMask MaskOf(const LayerPlan& layer, const RankStep& rank_step) const;
  // before: if it has layers, input is their output and input_gradient that of their input.
  // needs_input_gradient: false lets a layer leave input_gradient unchanged.
  Status LayerBackward(const TowerPlan& tower, const LayerPlan& layer,
                       MatrixView<const float> input, const Activation& before,
                       MatrixView<float> input_gradient, bool needs_input_gradient,
                       const RankStep& rank_step);
  Status LayerBackwardWeights(const LayerPlan& layer, MatrixView<const float> input);
  // Computes the gradient of a tower's only block of embeddings from that of its first layer's
  // output. Checks that it is finite.
  Status DirectBackward(const TowerPlan& tower, const TowerInput& input,
                        MatrixView<float> embedding_gradient);

  // Parts of state().
  std::span<float> running_statistics() { return state_.as<float>(plan_.statistics_count); }
  std::span<float> optimizer_state();
  std::span<float> weight_average();
  std::span<float> item_frequency();
  std::span<const float> Weights(Mode mode);
  PredictPass PassOf(Mode mode);
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
  const VectorCodec embedding_codec_;
  const VectorCodec gradient_codec_;
  AlignedBuffer parameters_;
  AlignedBuffer gradients_;
  AlignedBuffer state_;
  AlignedBuffer batch_statistics_;  // Same layout as the running statistics.
  AlignedBuffer interaction_scratch_;
  AlignedBuffer block_gradients_;  // Gradients of a block that has none in f32.
  Workspace activations_;
  Workspace activation_gradients_;
  size_t step_rows_ = 0;  // Samples in batch_statistics_.
  // Rows in the statistics inside an attention, by the layer's parameter_offset.
  std::map<size_t, uint64_t> history_rows_;
  std::optional<InBatchSoftmax> in_batch_;
  Step step_ = Step::kNone;
  // Whether the gradients that the last backward pass checked are finite.
  bool gradients_finite_ = true;
  // Whether the backward pass checks the gradients of all embeddings.
  const bool checks_gradients_;
};

}  // namespace simurgh::cpu
