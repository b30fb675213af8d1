#include "nn/cpu/matmul.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include <dnnl.hpp>

#include "nn/cpu/bf16_products.h"
#include "nn/cpu/pieces.h"

namespace simurgh::cpu {
namespace {

thread_local ProductPrecision precision = ProductPrecision::kF32;

dnnl::status MultiplyPiece(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
  return dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(c.rows()),
                     dim(c.columns()), dim(depth), 1.0F, a.matrix.data(), dim(a.matrix.stride()),
                     b.matrix.data(), dim(b.matrix.stride()), beta, c.data(), dim(c.stride()));
}

}  // namespace

void SetProductPrecision(ProductPrecision value) { precision = value; }

Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  if (precision == ProductPrecision::kBf16) return MultiplyBf16(a, b, depth, beta, c);
  std::atomic<dnnl::status> status = dnnl::status::success;
  InPieces(a, b, depth, c, [&](Operand a_piece, Operand b_piece, MatrixView<float> piece) {
    const dnnl::status result = MultiplyPiece(a_piece, b_piece, depth, beta, piece);
    if (result != dnnl::status::success) status = result;
  });
  if (status == dnnl::status::success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN sgemm (", c.rows(), " x ", depth, ") times (",
                                          depth, " x ", c.columns(), ") failed with status ",
                                          static_cast<int>(status.load())));
}

}  // namespace simurgh::cpu
