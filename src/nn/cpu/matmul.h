#pragma once

#include <cstddef>

#include <dnnl.hpp>

#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// The CPU as oneDNN sees it. Threads: any.
inline const dnnl::engine& DnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Operand {
  MatrixView<const float> matrix;
  bool transposed = false;
};

enum class ProductPrecision {
  kF32,
  kBf16,  // Operands rounded to bf16, sums in f32.
};

// Sets the precision of this thread's Multiply calls; initially kF32.
void SetProductPrecision(ProductPrecision precision);

// c = a b + beta c, by oneDNN. depth: columns of a, after transposition.
// Errors: INTERNAL when oneDNN fails.
Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

// Whether oneDNN uses bf16 instructions (AVX512_BF16 or AMX). Without them bf16 products are slower
// than f32, or fail.
bool HasBf16Products();

// As Multiply, with both operands rounded to bf16 and f32 sums.
// Errors: INTERNAL when oneDNN fails, as it does on processors without AVX-512.
Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

}  // namespace simurgh::cpu
