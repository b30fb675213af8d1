#pragma once

#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"

// A matrix product with an epilogue.
namespace simurgh::cuda {

// Alignment of an epilogue's vectors and matrices in bytes. Products do not fuse others.
inline constexpr size_t kEpilogueAlignment = 16;

// One bit per value: set if relu's input was positive. Written and read by products.
struct ReluMask {
  void* bits = nullptr;
  size_t row_bits = 0;
  bool written = false;  // True if the last forward product wrote it.
};

enum class Epilogue {
  kNone,
  kBias,          // d += bias
  kBiasRelu,      // d = max(0, d + bias)
  kBiasReluMask,  // d = max(0, d + bias), and writes the mask.
  kReluBackward,  // d = 0 where the mask is 0.
  kBiasGelu,      // gelu_input = d + bias, d = gelu(gelu_input)
  kGeluBackward,  // d *= gelu'(gelu_input)
  kBiasGradient,  // bias_gradient = the sum over b's rows.
};

// d = op(a) op(b) + beta c. T: type of the operands' elements; Out: type of the results'.
template <typename T, typename Out>
struct Gemm {
  Matrix<const T> a;
  bool a_transposed = false;
  Matrix<const T> b;
  bool b_transposed = false;
  size_t depth = 0;
  Matrix<Out> d;
  Matrix<const Out> c;  // Used with beta = 1; may be d.
  float beta = 0.0F;    // 0 or 1.
  Epilogue epilogue = Epilogue::kNone;
  const Out* bias = nullptr;
  float* bias_gradient = nullptr;
  ReluMask* mask = nullptr;
  Matrix<Out> gelu_input;  // Same size as d; rows of a multiple of kGeluRowElements.
};

// The product without epilogue, for shapes that cuBLASLt does not support, and for the host. Called
// for each cell of d.
template <typename T, typename Out>
struct GemmCell {
  Gemm<T, Out> gemm;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    float sum = 0.0F;
    for (size_t k = 0; k < gemm.depth; ++k) {
      const T x = gemm.a_transposed ? gemm.a(k, row) : gemm.a(row, k);
      const T y = gemm.b_transposed ? gemm.b(column, k) : gemm.b(k, column);
      sum += ToFloat(x) * ToFloat(y);
    }
    if (gemm.beta != 0.0F) sum += ToFloat(gemm.c(row, column));
    Assign(gemm.d(row, column), sum);
  }
};

}  // namespace simurgh::cuda
