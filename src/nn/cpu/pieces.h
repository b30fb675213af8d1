#pragma once

#include <algorithm>
#include <cstddef>

#include "nn/cpu/compute_threads.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// Minimum multiplications of a piece: about twenty microseconds of work.
inline constexpr size_t kPieceMultiplications = size_t{1} << 19;
// Sides of pieces are multiples of this, because oneDNN's kernels compute 48 by 8 elements.
inline constexpr size_t kPieceUnit = 48;
// Pieces per thread: more than one, to shorten the wait for a preempted thread.
inline constexpr size_t kPiecesOfThread = 2;

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

}  // namespace simurgh::cpu
