#include "nn/cpu/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

#include "base/aligned_buffer.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/onednn.h"
#include "nn/cpu/round_to_bf16.h"

namespace simurgh::cpu {
namespace {

// Minimum multiplications of a piece: about twenty microseconds of work.
constexpr size_t kPieceMultiplications = size_t{1} << 19;
// Sides of pieces are multiples of this, because oneDNN's kernels compute 48 by 8 elements.
constexpr size_t kPieceUnit = 48;
// Pieces per thread: more than one, to shorten the wait for a preempted thread.
constexpr size_t kPiecesOfThread = 3;

// Rows [first, first + count) of an operand after transposition, or else its columns. Operand has
// members `matrix` and `transposed`.
template <typename Operand>
Operand PartOf(Operand operand, bool rows, size_t first, size_t count) {
  const bool of_rows = rows != operand.transposed;
  return {of_rows ? operand.matrix.Rows(first, count) : operand.matrix.Columns(first, count),
          operand.transposed};
}

// Start of a piece along a side. Piece number `pieces` starts at the end.
size_t PieceBegin(size_t side, size_t piece, size_t pieces) {
  return piece == pieces ? side : side * piece / pieces / kPieceUnit * kPieceUnit;
}

// Computes a deep product of few elements, such as the gradient of weights: each piece is a sum
// over a part of the depth, and the pieces are added in order. Pieces of c would each read an
// operand whole.
template <typename Operand, typename MultiplyPiece>
void InPiecesOfDepth(size_t pieces, Operand a, Operand b, size_t depth, float beta,
                     MatrixView<float> c, const MultiplyPiece& multiply, PieceWork finish) {
  thread_local AlignedBuffer buffer;
  const size_t size = c.rows() * c.columns();
  const size_t bytes = (pieces - 1) * size * sizeof(float);
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  float* sums = reinterpret_cast<float*>(buffer.data());
  RunParts(pieces, [&](size_t piece) {
    const size_t first = PieceBegin(depth, piece, pieces);
    const size_t count = PieceBegin(depth, piece + 1, pieces) - first;
    const MatrixView<float> sum =
        piece == 0 ? c : MatrixView<float>(sums + (piece - 1) * size, c.rows(), c.columns());
    multiply(PartOf(a, false, first, count), PartOf(b, true, first, count), count,
             piece == 0 ? beta : 0.0F, sum);
  });
  ForEachPart(c.rows(), MinRows(pieces * c.columns()), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) {
      float* to = c.row(row).data();
      for (size_t piece = 1; piece < pieces; ++piece) {
        const float* from = sums + (piece - 1) * size + row * c.columns();
        for (size_t column = 0; column < c.columns(); ++column) to[column] += from[column];
      }
    }
    finish(c.Rows(first, end - first), first, 0);
  });
}

// Computes c = a b + beta c by multiply(a, b, depth, beta, c) for pieces of it, by RunParts, and
// finishes them.
template <typename Operand, typename MultiplyPiece>
void InPieces(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c,
              const MultiplyPiece& multiply, PieceWork finish) {
  const bool by_rows = c.rows() >= c.columns();
  const size_t side = by_rows ? c.rows() : c.columns();
  const size_t threads = ComputeThreads();
  const size_t multiplications = c.rows() * c.columns() * depth;
  const size_t max_pieces =
      threads == 1 ? 1
                   : std::min(threads * kPiecesOfThread, multiplications / kPieceMultiplications);
  const size_t depth_pieces = std::min(max_pieces, depth / (2 * side));
  if (threads > 1 && depth_pieces >= threads) {
    InPiecesOfDepth(depth_pieces, a, b, depth, beta, c, multiply, finish);
    return;
  }
  const size_t pieces = std::max<size_t>(std::min(max_pieces, side / kPieceUnit), 1);
  RunParts(pieces, [&](size_t piece) {
    const size_t first = PieceBegin(side, piece, pieces);
    const size_t count = PieceBegin(side, piece + 1, pieces) - first;
    const MatrixView<float> part = by_rows ? c.Rows(first, count) : c.Columns(first, count);
    multiply(by_rows ? PartOf(a, true, first, count) : a,
             by_rows ? b : PartOf(b, false, first, count), depth, beta, part);
    finish(part, by_rows ? first : 0, by_rows ? 0 : first);
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
  const dnnl::matmul product(DescribePrimitive<dnnl::matmul>(
      attributes, source.get_desc(), weights.get_desc(), result.get_desc()));
  dnnl::stream stream(DnnlEngine());
  product.execute(stream,
                  {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}});
  stream.wait();
}

}  // namespace

void SetProductPrecision(ProductPrecision value) { precision = value; }

Status Multiply(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c,
                PieceWork finish) {
  if (precision == ProductPrecision::kBf16) return MultiplyBf16(a, b, depth, beta, c, finish);
  std::atomic<dnnl::status> status = dnnl::status::success;
  const auto multiply = [&status](auto... piece) {
    const dnnl::status result = MultiplyPiece(piece...);
    if (result != dnnl::status::success) status = result;
  };
  InPieces(a, b, depth, beta, c, multiply, finish);
  if (status == dnnl::status::success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN sgemm (", c.rows(), " x ", depth, ") times (",
                                          depth, " x ", c.columns(), ") failed with status ",
                                          static_cast<int>(status.load())));
}

bool HasBf16Products() {
  // Each set of instructions is a bit of the value.
  constexpr auto kBf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kBf16) == kBf16;
}

Status MultiplyBf16(Operand a, Operand b, size_t depth, float beta, MatrixView<float> c,
                    PieceWork finish) {
  thread_local AlignedBuffer a_buffer;
  thread_local AlignedBuffer b_buffer;
  const Bf16Operand a16 = Round(a, a_buffer);
  const Bf16Operand b16 = Round(b, b_buffer);
  std::atomic<int> failure = dnnl_success;
  const auto multiply = [&failure](auto... piece) {
    try {
      MultiplyPiece(piece...);
    } catch (const dnnl::error& error) {
      failure = error.status;
    }
  };
  InPieces(a16, b16, depth, beta, c, multiply, finish);
  if (failure == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN matmul of bf16 (", c.rows(), " x ", depth,
                                          ") times (", depth, " x ", c.columns(),
                                          ") failed with status ", failure.load()));
}

}  // namespace simurgh::cpu
