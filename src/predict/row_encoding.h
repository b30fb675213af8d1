#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/embedding_form.h"
#include "config/table_config.h"

namespace simurgh {

// How a process that predicts keeps the rows of a table.
//
//   f32    as the model stores them
//   bf16   rows of f32 become bf16, rounded to nearest; rows of 16 bits stay as they are
//   int8   a byte for each number, then a scale of the row, bf16. A number is its byte (-127 to
//          127) times the scale, which is the largest absolute number / 127, rounded up. Rows
//          below 2^-100 become zeros. A row with NaN or infinity becomes NaN
//
// Threads: immutable.
class RowEncoding {
 public:
  // precision: f32, bf16 or int8.
  RowEncoding(const TableConfig& table, VectorPrecision precision);

  size_t row_bytes() const { return row_bytes_; }

  // Encodes a row of a process that keeps it in another encoding of the same table.
  void EncodeFrom(const RowEncoding& other, const std::byte* from, std::byte* row) const;
  void Widen(const std::byte* row, std::span<float> to) const;

 private:
  enum class Kept { kF32, kBf16, kF16, kInt8 };

  Kept kept_;
  uint32_t dim_;
  size_t row_bytes_;
};

// Returns the encoding of rows in files.
inline RowEncoding StoredEncoding(const TableConfig& table) {
  return RowEncoding(table, VectorPrecision::kF32);
}

// Returns the encodings of all tables.
std::vector<RowEncoding> EncodingsOf(const std::vector<TableConfig>& tables,
                                     VectorPrecision precision);

}  // namespace simurgh
