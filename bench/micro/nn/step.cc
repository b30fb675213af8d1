#include "bench/micro/nn/step.h"

#include "nn/cpu/activation.h"
#include "simurgh/base/check.h"
#include "simurgh/base/random.h"

namespace simurgh::bench {
namespace {

constexpr uint64_t kSeed = 42;

ModelConfig ModelOf(const std::vector<size_t>& widths) {
  TowerConfig tower{.name = "top", .inputs = {"dense", "embeddings"}, .layers = {}};
  for (size_t i = 0; i < widths.size(); ++i) {
    tower.layers.push_back(
        {.kind = LayerConfig::Kind::kLinear, .width = static_cast<uint32_t>(widths[i])});
    if (i + 1 < widths.size()) tower.layers.push_back({.kind = LayerConfig::Kind::kRelu});
  }
  return {.towers = {tower}, .loss = {}};
}

DenseNetworkOptions OptionsOf(ComputePrecision precision, uint32_t threads) {
  DenseNetworkOptions options;
  options.inputs = {
      .dense_width = kDenseInputs, .embedding_width = kEmbeddingInputs, .features = {}};
  options.threads = threads;
  options.precision = precision;
  options.optimizer.kind = DenseOptimizerConfig::Kind::kAdam;
  return options;
}

}  // namespace

RandomMatrix::RandomMatrix(size_t rows, size_t columns)
    : rows_(rows), columns_(columns), buffer_(rows * columns * sizeof(float)) {
  Random random(kSeed);
  for (float& value : view().flat()) value = static_cast<float>(random.Uniform() * 2 - 1);
}

std::function<void()> Activations(const std::vector<size_t>& widths, size_t samples) {
  struct Layer {
    RandomMatrix values, gradients;
  };
  const auto layers = std::make_shared<std::vector<Layer>>();
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers->push_back({RandomMatrix(samples, widths[i]), RandomMatrix(samples, widths[i])});
  }
  return [layers] {
    for (Layer& layer : *layers) {
      const std::span<float> values = layer.values.view().flat();
      const std::span<float> gradients = layer.gradients.view().flat();
      cpu::ReluForward(values, values);
      cpu::ReluBackward(values, gradients, gradients);
    }
  };
}

NetworkStep::NetworkStep(const std::vector<size_t>& widths, size_t samples,
                         ComputePrecision precision, uint32_t threads)
    : dense_(samples, kDenseInputs),
      embeddings_(samples, kEmbeddingInputs),
      gradient_(samples, kEmbeddingInputs),
      labels_(samples),
      probabilities_(samples) {
  auto network = CreateCpuNetwork(ModelOf(widths), OptionsOf(precision, threads));
  SIMURGH_CHECK(network.ok()) << network.status().ToString();
  network_ = *std::move(network);
  for (size_t i = 0; i < samples; i += 4) labels_[i] = 1.0F;
}

void NetworkStep::ForwardBackward() {
  const auto result = network_->ForwardBackward(dense_.view(), embeddings_.view(), labels_,
                                                gradient_.view(), probabilities_);
  SIMURGH_CHECK(result.ok() && result->finite);
}

void NetworkStep::ApplyGradients() {
  constexpr float kLearningRate = 1e-6F;
  SIMURGH_CHECK(network_->ApplyGradients(kLearningRate).ok());
}

}  // namespace simurgh::bench
