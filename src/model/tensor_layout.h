#pragma once

// What writer and reader of tensor files share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/hash.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {

inline constexpr char kMetadataKey[] = "__metadata__";
inline constexpr char kSumsName[] = "sums";
inline constexpr uint64_t kLengthBytes = sizeof(uint64_t);  // Of the header's length.

uint64_t ElementBytes(DType dtype);

// Nothing if the number has more than 63 bits.
std::optional<uint64_t> RowBytes(const TensorSpec& spec);
std::optional<uint64_t> TensorBytes(const TensorSpec& spec);

// Where a tensor is in its file, and how far it has been written or read.
struct Tensor {
  uint64_t bytes() const { return spec.rows() * row_bytes; }
  // Of a tensor without bytes: none.
  uint64_t sum_count() const { return bytes() == 0 ? 0 : (spec.rows() - 1) / kRowsPerSum + 1; }

  TensorSpec spec;
  uint64_t row_bytes = 0;
  uint64_t offset = 0;     // From the start of the data, which follows the header.
  uint64_t first_sum = 0;  // Index of its first checksum.
  // The next row in order. The hasher has the rows from the last multiple of kRowsPerSum on.
  uint64_t next_row = 0;
  ByteHasher hasher;
  uint64_t sent = 0;  // Bytes that the writer has asked to write back.
};

// The header without its length, padded to a multiple of 8 bytes. `tensors` include `sums`.
std::string HeaderText(std::span<const Tensor> tensors, const TensorMetadata& metadata);

struct Header {
  TensorMetadata metadata;
  std::vector<Tensor> tensors;  // In the order of the file; `sums` is one of them.
  uint64_t data_bytes = 0;
};
// Errors: DATA_LOSS naming the tensor.
StatusOr<Header> ParseHeader(std::string_view text);

// Hashes rows from next_row on, and calls done(index of the checksum, first row, end, hash) for
// each checksum whose last row is among them. Requires: whole rows, no more than the tensor has.
template <typename Done>
Status HashRows(Tensor& tensor, std::span<const std::byte> bytes, Done done) {
  while (!bytes.empty()) {
    const uint64_t index = tensor.next_row / kRowsPerSum;
    const uint64_t sum_end = std::min((index + 1) * kRowsPerSum, tensor.spec.rows());
    const uint64_t rows = std::min(bytes.size() / tensor.row_bytes, sum_end - tensor.next_row);
    tensor.hasher.Update(bytes.first(rows * tensor.row_bytes));
    bytes = bytes.subspan(rows * tensor.row_bytes);
    tensor.next_row += rows;
    if (tensor.next_row != sum_end) break;
    SIMURGH_RETURN_IF_ERROR(
        done(tensor.first_sum + index, index * kRowsPerSum, sum_end, tensor.hasher.Finish()));
  }
  return absl::OkStatus();
}

// The hash of a file in a manifest.
uint64_t HashOfFile(std::string_view header_with_length, std::span<const uint64_t> sums);

}  // namespace simurgh
