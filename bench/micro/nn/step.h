#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/micro/nn/networks.h"
#include "bench/micro/nn/random_matrix.h"
#include "nn/dense_network.h"

namespace simurgh::bench {

// A network with a batch for it.
class NetworkStep {
 public:
  NetworkStep(const Subject& subject, size_t samples, ComputePrecision precision, uint32_t threads);

  void ForwardBackward();
  // Requires ForwardBackward before.
  void ApplyGradients();

 private:
  std::unique_ptr<DenseNetwork> network_;
  RandomMatrix dense_;
  std::shared_ptr<BatchBlock> block_;
  std::vector<float> labels_;
  std::vector<float> probabilities_;
};

}  // namespace simurgh::bench
