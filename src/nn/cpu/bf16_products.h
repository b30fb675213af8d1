#pragma once

#include "nn/cpu/matmul.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// Whether oneDNN uses bf16 instructions (AVX512_BF16 or AMX). Without them bf16 products are slower
// than f32, or fail.
bool HasBf16Products();

// As Multiply, with both operands rounded to bf16 and f32 sums.
// Errors: INTERNAL when oneDNN fails, as it does on processors without AVX-512.
Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c);

}  // namespace simurgh::cpu
