#pragma once

#include <cstddef>

#include "simurgh/base/status.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

struct Operand {
  MatrixView<const float> matrix;
  bool transposed = false;
};

// c = a b + beta c, by oneDNN's sgemm. depth: columns of a (as transposed).
// Errors: INTERNAL when oneDNN fails.
Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

}  // namespace simurgh::cpu
