#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/service_config.h"
#include "tensor/matrix_view.h"

namespace simurgh::cpu {

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

// Work on a finished piece of a product, by the thread that computed it, while the piece is in its
// cache. row, column: position of the piece's first element in the product.
using PieceWork = absl::FunctionRef<void(MatrixView<float> piece, size_t row, size_t column)>;

inline void NoPieceWork(MatrixView<float> /*piece*/, size_t /*row*/, size_t /*column*/) {}

// c = a b + beta c, by oneDNN, then `finish` for each piece of c. depth: columns of a, after
// transposition. Pieces, and so the bits of c, depend only on the shape and the number of threads.
// Errors: INTERNAL when oneDNN fails.
Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c,
                PieceWork finish = NoPieceWork);

// Returns whether oneDNN uses bf16 instructions (AVX512_BF16 or AMX). Without them bf16 products
// are slower than f32, or fail.
bool HasBf16Products();

// Multiplies like Multiply, with both operands rounded to bf16 and f32 sums.
// Errors: INTERNAL when oneDNN fails, as it does on processors without AVX-512.
Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c,
                    PieceWork finish = NoPieceWork);

}  // namespace simurgh::cpu
