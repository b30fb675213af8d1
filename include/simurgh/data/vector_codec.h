#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simurgh/config/vector_precision.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// What rounding by chance depends on: nothing else.
struct RoundingKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_row = 0;  // Of the matrix; one number for each row of a step, over all ranks.
};

// The number of a rank's first row in each step.
constexpr uint64_t FirstRowOf(uint32_t rank) { return uint64_t{rank} << 32; }

// Embeddings or their gradients as bytes, as they travel between nn-worker and embedding worker.
//
// A row of the matrix is a sample's vectors, concatenated. An encoded row has as many numbers:
//
//   f32    4 bytes each
//   bf16   2 bytes each, rounded to the nearest
//   f16    likewise; beyond the largest finite number, it
//   int8   1 byte each, padded to a multiple of 4 bytes; then a scale for each vector, f32. A
//          number is its int8 (-127 to 127) times the scale, which is the largest absolute number
//          of the vector / 127. A vector whose numbers are all below 2^-100 becomes zeros.
//
// NaN and infinity become NaN; in int8 they make the whole vector NaN.
//
// Threads: immutable.
class VectorCodec {
 public:
  // dims: of a row's vectors, in order; each above 0.
  VectorCodec(VectorPrecision precision, std::vector<uint32_t> dims);

  VectorPrecision precision() const { return precision_; }
  const std::vector<uint32_t>& dims() const { return dims_; }
  size_t columns() const { return columns_; }
  size_t row_bytes() const { return row_bytes_; }
  // Of int8: where a coded row's scales begin.
  size_t scales_offset() const { return (columns_ + 3) / 4 * 4; }

  // rows: (B, columns). coded: (B * row_bytes), at a multiple of 4 bytes; overwritten. key: int8
  // are rounded up or down by chance, with a probability that makes the mean right; none: to the
  // nearest. Every number is first multiplied by `factor`.
  // Requires a positive factor.
  void Encode(MatrixView<const float> rows, float factor, const std::optional<RoundingKey>& key,
              std::span<std::byte> coded) const;

  // The other way, whatever the bytes.
  void Decode(std::span<const std::byte> coded, float factor, MatrixView<float> rows) const;

 private:
  VectorPrecision precision_;
  std::vector<uint32_t> dims_;
  size_t columns_ = 0;
  size_t row_bytes_ = 0;
};

}  // namespace simurgh
