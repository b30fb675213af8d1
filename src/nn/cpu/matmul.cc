#include "nn/cpu/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include <dnnl.hpp>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/round_to_bf16.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh::cpu {
namespace {

// Minimum multiplications of a piece: about twenty microseconds of work.
constexpr size_t kPieceMultiplications = size_t{1} << 19;
// Sides of pieces are multiples of this, because oneDNN's kernels compute 48 by 8 elements.
constexpr size_t kPieceUnit = 48;
// Pieces per thread: more than one, to shorten the wait for a preempted thread.
constexpr size_t kPiecesOfThread = 2;

// Splits the product c = a b along the longer side of c and calls multiply(a, b, c) for each piece
// by RunParts. Operand has members `matrix` and `transposed`. Pieces depend only on the shape and
// the number of threads.
template <typename Operand, typename MultiplyPiece>
void InPieces(Operand a, Operand b, size_t depth, MatrixView<float> c,
              const MultiplyPiece& multiply) {
  const bool by_rows = c.rows() >= c.columns();
  const size_t side = by_rows ? c.rows() : c.columns();
  const size_t threads = ComputeThreads();
  const size_t multiplications = c.rows() * c.columns() * depth;
  const size_t max_pieces =
      threads == 1 ? 1
                   : std::min({threads * kPiecesOfThread, multiplications / kPieceMultiplications,
                               side / kPieceUnit});
  const size_t pieces = std::max<size_t>(max_pieces, 1);
  const auto begin_of = [=](size_t piece) {
    return piece == pieces ? side : side * piece / pieces / kPieceUnit * kPieceUnit;
  };
  RunParts(pieces, [&](size_t piece) {
    const size_t first = begin_of(piece);
    const size_t count = begin_of(piece + 1) - first;
    if (by_rows) {
      const Operand rows{
          a.transposed ? a.matrix.Columns(first, count) : a.matrix.Rows(first, count),
          a.transposed};
      multiply(rows, b, c.Rows(first, count));
    } else {
      const Operand columns{
          b.transposed ? b.matrix.Rows(first, count) : b.matrix.Columns(first, count),
          b.transposed};
      multiply(a, columns, c.Columns(first, count));
    }
  });
}

thread_local ProductPrecision precision = ProductPrecision::kF32;

dnnl::status MultiplyPiece(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  const auto dim = [](size_t n) { return static_cast<dnnl_dim_t>(n); };
  return dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(c.rows()),
                     dim(c.columns()), dim(depth), 1.0F, a.matrix.data(), dim(a.matrix.stride()),
                     b.matrix.data(), dim(b.matrix.stride()), beta, c.data(), dim(c.stride()));
}

using dnnl::memory;

struct Bf16Operand {
  MatrixView<const uint16_t> matrix;
  bool transposed = false;
};

Bf16Operand Round(Operand operand, AlignedBuffer& buffer) {
  const MatrixView<const float> from = operand.matrix;
  const size_t count = from.rows() * from.columns();
  if (buffer.size() < count * sizeof(uint16_t)) buffer = AlignedBuffer(count * sizeof(uint16_t));
  const MatrixView<uint16_t> to(buffer.as<uint16_t>(count).data(), from.rows(), from.columns());
  ForEachPart(from.rows(), MinRows(from.columns()), [=](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) RoundToBf16(from.row(row), to.row(row).data());
  });
  return {to, operand.transposed};
}

memory Describe(const void* data, memory::data_type type, size_t rows, size_t columns,
                size_t stride, bool transposed) {
  const auto dim = [](size_t n) { return static_cast<memory::dim>(n); };
  const memory::dims strides =
      transposed ? memory::dims{1, dim(stride)} : memory::dims{dim(stride), 1};
  // oneDNN only writes to the primitive's destination.
  return {memory::desc({dim(rows), dim(columns)}, type, strides), DnnlEngine(),
          const_cast<void*>(data)};
}

// Multiplies on this thread. Throws dnnl::error.
void MultiplyPiece(Bf16Operand a, Bf16Operand b, size_t depth, float beta, MatrixView<float> c) {
  using Type = memory::data_type;
  const memory source =
      Describe(a.matrix.data(), Type::bf16, c.rows(), depth, a.matrix.stride(), a.transposed);
  const memory weights =
      Describe(b.matrix.data(), Type::bf16, depth, c.columns(), b.matrix.stride(), b.transposed);
  const memory result = Describe(c.data(), Type::f32, c.rows(), c.columns(), c.stride(), false);
  dnnl::primitive_attr attributes;
  if (beta != 0.0F) {
    dnnl::post_ops after;
    after.append_sum(beta);
    attributes.set_post_ops(after);
  }
  // oneDNN caches the compiled primitive of these shapes.
  const dnnl::matmul product(dnnl::matmul::primitive_desc(
      {source.get_desc(), weights.get_desc(), result.get_desc()}, attributes, DnnlEngine()));
  dnnl::stream stream(DnnlEngine());
  product.execute(stream,
                  {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}});
  stream.wait();
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

bool HasBf16Products() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c) {
  thread_local AlignedBuffer a_buffer;
  thread_local AlignedBuffer b_buffer;
  const Bf16Operand a16 = Round(a, a_buffer);
  const Bf16Operand b16 = Round(b, b_buffer);
  std::atomic<int> failure = dnnl_success;
  InPieces(a16, b16, depth, c,
           [&](Bf16Operand a_piece, Bf16Operand b_piece, MatrixView<float> piece) {
             try {
               MultiplyPiece(a_piece, b_piece, depth, beta, piece);
             } catch (const dnnl::error& error) {
               failure = error.status;
             }
           });
  if (failure == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN matmul of bf16 (", c.rows(), " x ", depth,
                                          ") times (", depth, " x ", c.columns(),
                                          ") failed with status ", failure.load()));
}

}  // namespace simurgh::cpu
