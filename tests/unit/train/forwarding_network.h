#pragma once

#include <span>

#include "nn/dense_network.h"

namespace simurgh::testing {

// Another network, for tests that watch or hold what it does.
// Lifetime: `network` outlives it.
class ForwardingNetwork : public DenseNetwork {
 public:
  explicit ForwardingNetwork(DenseNetwork& network) : network_(network) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override {
    return network_.ForwardBackward(block, dense, labels, probabilities, step, meanwhile);
  }
  Status ApplyGradients(float rate) override { return network_.ApplyGradients(rate); }
  Status Predict(BatchBlock& block, MatrixView<const float> dense,
                 std::span<float> probabilities) override {
    return network_.Predict(block, dense, probabilities);
  }
  BlockPool& blocks() override { return network_.blocks(); }
  std::span<float> parameters() override { return network_.parameters(); }
  std::span<float> gradients() override { return network_.gradients(); }
  std::span<float> statistics() override { return network_.statistics(); }
  std::span<const float> state() const override { return network_.state(); }
  std::vector<DenseTensor> tensors() const override { return network_.tensors(); }
  Status Restore(std::span<const float> parameters, std::span<const float> state) override {
    return network_.Restore(parameters, state);
  }
  Status CheckFinite() override { return network_.CheckFinite(); }

 private:
  DenseNetwork& network_;
};

}  // namespace simurgh::testing
