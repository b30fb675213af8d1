#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/table_config.h"
#include "embedding/batch_plan.h"
#include "embedding/row_groups.h"
#include "embedding/vector_codec.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// One server's part of a request: contiguous ranges of all servers' ids and bytes.
struct ServerRows {
  std::vector<RowGroup> groups;
  size_t first_id = 0;
  size_t id_count = 0;
  size_t first_byte = 0;
  size_t byte_count = 0;
};

struct RowRequest {
  std::vector<ServerRows> servers;  // Indexed by server.
  size_t id_count = 0;
  size_t byte_count = 0;

  // Appends the next server.
  void Add(std::vector<RowGroup> groups);
};

// The encoding of rows or gradients between embedding worker and servers. f32 is the plan's floats
// unchanged; 16-bit formats round to the nearest.
//
// Threads: immutable; any.
class RowWire {
 public:
  RowWire(RowPrecision precision, const std::vector<uint32_t>& table_dims);

  // Returns whether the encoding is the plan's floats.
  bool is_plain() const { return precision_ == RowPrecision::kF32; }
  RowPrecision precision() const { return precision_; }

  // Returns the request for all rows of the plan.
  RowRequest RequestFor(const BatchPlan& plan) const;

  // rows: the rows of all groups, contiguous.
  void Encode(const ServerRows& server, std::span<const float> rows,
              std::span<std::byte> bytes) const;
  void Decode(const ServerRows& server, std::span<const std::byte> bytes,
              std::span<float> rows) const;

  size_t row_bytes(uint32_t table) const { return codecs_[table].row_bytes(); }
  void DecodeRow(uint32_t table, std::span<const std::byte> bytes, std::span<float> row) const {
    codecs_[table].Decode(bytes, /*factor=*/1, MatrixView<float>(row.data(), 1, row.size()));
  }

 private:
  RowPrecision precision_;
  std::vector<VectorCodec> codecs_;  // Indexed by table.
};

}  // namespace simurgh
