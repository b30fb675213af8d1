#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "tensor/matrix_view.h"

namespace simurgh::bench {

// Values between -1 and 1.
class RandomMatrix {
 public:
  RandomMatrix(size_t rows, size_t columns)
      : rows_(rows), columns_(columns), buffer_(rows * columns * sizeof(float)) {
    constexpr uint64_t kSeed = 42;
    Random random(kSeed);
    for (float& value : view().flat()) value = static_cast<float>(random.Uniform() * 2 - 1);
  }

  MatrixView<float> view() {
    return MatrixView<float>(buffer_.as<float>(rows_ * columns_).data(), rows_, columns_);
  }

 private:
  size_t rows_;
  size_t columns_;
  AlignedBuffer buffer_;
};

}  // namespace simurgh::bench
