#pragma once

#include <cstddef>

#include "simurgh/base/status.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

struct Operand {
  MatrixView<const float> matrix;
  bool transposed = false;
};

enum class ProductPrecision {
  kF32,
  kBf16,  // Operands are rounded to bf16; sums are f32.
};

// What Multiply works with when the calling thread calls it; kF32 at first.
void SetProductPrecision(ProductPrecision precision);

// c = a b + beta c, by oneDNN. depth: columns of a (as transposed).
// Errors: INTERNAL when oneDNN fails.
Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

}  // namespace simurgh::cpu
