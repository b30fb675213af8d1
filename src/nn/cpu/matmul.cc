#include "nn/cpu/matmul.h"

#include "absl/strings/str_cat.h"
#include <dnnl.hpp>

namespace simurgh::cpu {

Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
  const dnnl::status status =
      dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(c.rows()),
                  dim(c.columns()), dim(depth), 1.0F, a.matrix.data(), dim(a.matrix.stride()),
                  b.matrix.data(), dim(b.matrix.stride()), beta, c.data(), dim(c.stride()));
  if (status == dnnl::status::success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN sgemm (", c.rows(), " x ", depth, ") times (",
                                          depth, " x ", c.columns(), ") failed with status ",
                                          static_cast<int>(status)));
}

}  // namespace simurgh::cpu
