#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/embedding_form.h"
#include "config/table_config.h"
#include "embedding/pooling.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Stochastic rounding depends on this key only.
struct RoundingKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_row = 0;  // Number of the matrix's first row. Distinct over a step's ranks.
};

// Returns the first row of a rank in each step.
constexpr uint64_t FirstRowOf(uint32_t rank) { return uint64_t{rank} << 32; }

// Returns the encoding of rows in this precision.
VectorPrecision VectorPrecisionOf(RowPrecision precision);

// Encodes embeddings or their gradients for the wire between nn-worker and embedding worker.
//
// A row of the matrix concatenates a sample's vectors. An encoded row has the same numbers:
//
//   f32    4 bytes each
//   bf16   2 bytes each, rounded to nearest
//   f16    2 bytes each, rounded to nearest; larger numbers become the largest finite one
//   int8   1 byte each, padded to a multiple of 4 bytes; then a scale for each vector, f32. A
//          number is its int8 (-127 to 127) times the scale, which is the largest absolute number
//          of the vector / 127. Vectors below 2^-100 become zeros.
//
// NaN and infinity become NaN; in int8 the whole vector becomes NaN.
//
// Threads: immutable.
class VectorCodec {
 public:
  // dims: dims of a row's vectors, in order; each above 0.
  VectorCodec(VectorPrecision precision, std::vector<uint32_t> dims);

  VectorPrecision precision() const { return precision_; }
  const std::vector<uint32_t>& dims() const { return dims_; }
  size_t columns() const { return columns_; }
  size_t row_bytes() const { return row_bytes_; }
  // int8: offset of the scales in an encoded row.
  size_t scales_offset() const { return (columns_ + 3) / 4 * 4; }

  // Multiplies by `factor`, which must be positive, and encodes. rows: (B, columns). encoded: (B *
  // row_bytes), aligned to 4 bytes, overwritten. key: of stochastic rounding to int8; none: rounds
  // to nearest.
  void Encode(MatrixView<const float> rows, float factor, const std::optional<RoundingKey>& key,
              std::span<std::byte> encoded) const;

  // Decodes any bytes and multiplies by `factor`.
  void Decode(std::span<const std::byte> encoded, float factor, MatrixView<float> rows) const;

 private:
  VectorPrecision precision_;
  std::vector<uint32_t> dims_;
  size_t columns_ = 0;
  size_t row_bytes_ = 0;
};

// to = scale * from, as VectorCodec decodes a vector of int8. Requires equal sizes.
void ScaleBytes(std::span<const int8_t> from, float scale, std::span<float> to);

// Wire format of a trainer's embeddings and gradients.
struct EmbeddingWire {
  std::vector<uint32_t> dims;  // Dims of a sample's vectors, in order.
  VectorPrecision embeddings = VectorPrecision::kF32;
  VectorPrecision gradients = VectorPrecision::kF32;
  float gradient_factor = 1;  // Factor of gradients on the wire; above 0.
  uint64_t seed = 0;          // Seed of the gradients' RoundingKey.
  // With rows instead of embeddings: the rows of each feature, for RowCodec. Otherwise empty.
  std::vector<FeatureRows> rows = {};
  // Batches whose embeddings are fewer bytes than their rows have embeddings.
  bool smaller = false;
  // Batches of rows have gradients of rows where those are fewer bytes.
  bool row_gradients = false;
};

}  // namespace simurgh
