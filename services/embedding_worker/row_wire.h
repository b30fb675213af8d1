#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/config/table_config.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// What one server is asked, or told: contiguous ranges of the ids and of the bytes of all servers.
struct ServerRows {
  std::vector<RowGroup> groups;  // As row_payload.h has them.
  size_t first_id = 0;
  size_t id_count = 0;
  size_t first_byte = 0;
  size_t byte_count = 0;
};

// Of all servers, by server.
struct RowRequest {
  std::vector<ServerRows> servers;
  size_t id_count = 0;
  size_t byte_count = 0;

  // Adds a server whose groups are these.
  void Add(std::vector<RowGroup> groups);
};

// Rows or their gradients as they travel between embedding worker and servers, in one precision for
// each direction. f32 are the numbers of a plan as they lie; 16 bits are rounded to the nearest.
//
// Threads: immutable; any.
class RowWire {
 public:
  RowWire(RowPrecision precision, const std::vector<uint32_t>& table_dims);

  // Whether bytes are the floats of a plan, in their order.
  bool is_plain() const { return precision_ == RowPrecision::kF32; }
  RowPrecision precision() const { return precision_; }

  // All rows of the plan.
  RowRequest RequestFor(const BatchPlan& plan) const;

  // A server's rows, one behind the other, from and to their bytes. rows: as many as the groups
  // have.
  void Encode(const ServerRows& server, std::span<const float> rows,
              std::span<std::byte> bytes) const;
  void Decode(const ServerRows& server, std::span<const std::byte> bytes,
              std::span<float> rows) const;

  size_t row_bytes(uint32_t table) const { return codes_[table].row_bytes(); }
  void DecodeRow(uint32_t table, std::span<const std::byte> bytes, std::span<float> row) const {
    codes_[table].Decode(bytes, /*factor=*/1, MatrixView<float>(row.data(), 1, row.size()));
  }

 private:
  RowPrecision precision_;
  std::vector<VectorCodec> codes_;  // By table.
};

}  // namespace simurgh
