#pragma once

#include <memory>
#include <span>
#include <vector>

#include "services/embedding_ps/step_barrier.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// The sum of several pushes. Each id of a table appears once, in the order of its first appearance.
// Its gradients are added in f32, in the order of the pushes.
struct ReducedPush {
  struct TableRows {
    std::vector<uint64_t> ids;
    std::vector<float> gradients;  // (U, D)
  };

  std::vector<TableRows> tables;
  std::vector<PushGroup> groups;  // Spans of `tables`.
};

// pushes: of one step. A table's learning rate is that of the first push with the table.
// Cost: a hash table of the ids.
std::shared_ptr<const ReducedPush> ReducePushes(std::span<const HeldPush> pushes);

}  // namespace simurgh
