#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/table_config.h"

namespace simurgh {

// The rows of one table that a batch needs from one server.
struct RowGroup {
  uint32_t table = 0;
  uint32_t dim = 0;
  std::vector<uint32_t> counts;                 // (partitions of the server) number of ids.
  RowPrecision precision = RowPrecision::kF32;  // Transmitted rows and gradients.
};

// The ids of a request are ordered by group and then by partition. Rows or gradients follow the
// same order, each row with its group's dim and precision. Each group is padded to a multiple of 4
// bytes, so that f32 groups are aligned.

struct RowPayload {
  uint64_t ids = 0;
  uint64_t bytes = 0;  // Size of rows or gradients, with padding.
};

// The size of the rows of a group with its padding.
inline uint64_t PaddedRowBytes(uint64_t bytes) {
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

// Requires the dims of a server's tables and at most kMaxBatchOccurrences ids.
RowPayload PayloadOf(const RowGroup& group);
RowPayload PayloadOf(std::span<const RowGroup> groups);

// Calls visit(partition, group, first id, ids, first byte) for every non-empty part of a group that
// belongs to one partition.
template <typename Visit>
void ForEachRun(std::span<const RowGroup> groups, const Visit& visit) {
  size_t id = 0;
  size_t group_byte = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t row_bytes = size_t{groups[g].dim} * SizeOf(groups[g].precision);
    size_t byte = group_byte;
    for (size_t p = 0; p < groups[g].counts.size(); ++p) {
      const size_t count = groups[g].counts[p];
      if (count > 0) visit(p, g, id, count, byte);
      id += count;
      byte += count * row_bytes;
    }
    group_byte += PayloadOf(groups[g]).bytes;
  }
}

}  // namespace simurgh
