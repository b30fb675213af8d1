#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/feature/batch_plan.h"

namespace simurgh::api {

// The ids of a request lie group after group, in each partition after partition; its rows or
// gradients lie in the same order, each row as many numbers of its group's precision as its group's
// dim. What a group's 16-bit numbers lack to a multiple of 4 bytes follows them, so that every
// group can begin with f32.

struct RowPayload {
  uint64_t ids = 0;
  uint64_t bytes = 0;  // Of rows or gradients.
};

// Requires that dims and counts have bounds, as those of a decoded request have.
RowPayload PayloadOf(const RowGroup& group);
RowPayload PayloadOf(std::span<const RowGroup> groups);

// Calls visit(partition, group, first id, ids, first byte) for every run of ids that belong to one
// group and partition.
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

}  // namespace simurgh::api
