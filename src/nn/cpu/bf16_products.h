#pragma once

#include "nn/cpu/matmul.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// Whether this machine has instructions for products of bf16 (AVX512_BF16 or AMX), as oneDNN sees
// it. Without them they are slower than those of f32.
bool HasBf16Products();

// As Multiply of f32, with both operands rounded to bf16; sums are f32.
// Errors: INTERNAL when oneDNN fails, as it does where it knows no product of bf16 at all.
Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

}  // namespace simurgh::cpu
