#include "nn/cpu/matmul.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include <dnnl.hpp>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {
namespace {

// Fewer are not worth a second thread: some twenty microseconds.
constexpr size_t kPartMultiplications = size_t{1} << 19;
// A product is split along its longer side, into pieces of a multiple of this: oneDNN's kernels
// make 48 by 8 elements at a time.
constexpr size_t kPieceUnit = 48;
// A thread: so that one which the system stops has less to be waited for.
constexpr size_t kPartsOfThread = 2;

dnnl::status MultiplyHere(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
  return dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(c.rows()),
                     dim(c.columns()), dim(depth), 1.0F, a.matrix.data(), dim(a.matrix.stride()),
                     b.matrix.data(), dim(b.matrix.stride()), beta, c.data(), dim(c.stride()));
}

// Of the operand as transposed.
Operand RowsOf(Operand a, size_t first, size_t count) {
  return {a.transposed ? a.matrix.Columns(first, count) : a.matrix.Rows(first, count),
          a.transposed};
}
Operand ColumnsOf(Operand b, size_t first, size_t count) {
  return {b.transposed ? b.matrix.Rows(first, count) : b.matrix.Columns(first, count),
          b.transposed};
}

}  // namespace

Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const bool by_rows = c.rows() >= c.columns();
  const size_t side = by_rows ? c.rows() : c.columns();
  const size_t multiplications = c.rows() * c.columns() * depth;
  const size_t threads = ComputeThreads();
  size_t parts = 1;
  if (threads > 1) {
    parts = std::min(
        {threads * kPartsOfThread, multiplications / kPartMultiplications, side / kPieceUnit});
    parts = std::max<size_t>(parts, 1);
  }
  std::atomic<dnnl::status> status = dnnl::status::success;
  RunParts(parts, [&](size_t part) {
    const auto begin_of = [&](size_t p) {
      return p == parts ? side : side * p / parts / kPieceUnit * kPieceUnit;
    };
    const size_t first = begin_of(part);
    const size_t count = begin_of(part + 1) - first;
    const dnnl::status own =
        by_rows ? MultiplyHere(RowsOf(a, first, count), b, depth, beta, c.Rows(first, count))
                : MultiplyHere(a, ColumnsOf(b, first, count), depth, beta, c.Columns(first, count));
    if (own != dnnl::status::success) status = own;
  });
  if (status == dnnl::status::success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN sgemm (", c.rows(), " x ", depth, ") times (",
                                          depth, " x ", c.columns(), ") failed with status ",
                                          static_cast<int>(status.load())));
}

}  // namespace simurgh::cpu
