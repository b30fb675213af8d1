#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::bench {

inline constexpr size_t kDenseInputs = 13;
inline constexpr size_t kEmbeddingInputs = 26 * 16;
inline constexpr size_t kInputs = kDenseInputs + kEmbeddingInputs;

// Values between -1 and 1.
class RandomMatrix {
 public:
  RandomMatrix(size_t rows, size_t columns);

  MatrixView<float> view() {
    return MatrixView<float>(buffer_.as<float>(rows_ * columns_).data(), rows_, columns_);
  }

 private:
  size_t rows_;
  size_t columns_;
  AlignedBuffer buffer_;
};

// Does the relus of a step, forward and back, over values of their own.
std::function<void()> Activations(const std::vector<size_t>& widths, size_t samples);

// A network with a batch for it.
class NetworkStep {
 public:
  NetworkStep(const std::vector<size_t>& widths, size_t samples, ComputePrecision precision,
              uint32_t threads);

  void ForwardBackward();
  // Follows a ForwardBackward.
  void ApplyGradients();

 private:
  std::unique_ptr<DenseNetwork> network_;
  RandomMatrix dense_;
  RandomMatrix embeddings_;
  RandomMatrix gradient_;
  std::vector<float> labels_;
  std::vector<float> probabilities_;
};

}  // namespace simurgh::bench
