#include "bench/micro/nn/step.h"

#include <algorithm>

#include "base/check.h"

namespace simurgh::bench {
namespace {

DenseNetworkOptions OptionsOf(const Subject& subject, ComputePrecision precision,
                              uint32_t threads) {
  DenseNetworkOptions options;
  options.inputs = subject.inputs;
  options.threads = threads;
  options.precision = precision;
  options.optimizer.kind = DenseOptimizerConfig::Kind::kAdam;
  return options;
}

}  // namespace

NetworkStep::NetworkStep(const Subject& subject, size_t samples, ComputePrecision precision,
                         uint32_t threads)
    : dense_(samples, subject.inputs.dense_width), labels_(samples), probabilities_(samples) {
  auto network = CreateCpuNetwork(subject.model, OptionsOf(subject, precision, threads));
  SIMURGH_CHECK(network.ok()) << network.status().ToString();
  network_ = *std::move(network);
  block_ = network_->blocks().Lease(samples, true);
  RandomMatrix embeddings(samples, subject.inputs.embedding_width);
  std::ranges::copy(embeddings.view().flat(), block_->embeddings.flat().begin());
  for (size_t i = 0; i < samples; i += 4) labels_[i] = 1.0F;
}

void NetworkStep::ForwardBackward() {
  const auto result = network_->ForwardBackward(*block_, dense_.view(), labels_, probabilities_);
  SIMURGH_CHECK(result.ok() && result->finite);
}

void NetworkStep::ApplyGradients() {
  constexpr float kLearningRate = 1e-6F;
  SIMURGH_CHECK(network_->ApplyGradients(kLearningRate).ok());
}

}  // namespace simurgh::bench
