#pragma once

#include <memory>
#include <span>
#include <vector>

#include "services/embedding_ps/step_barrier.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// One push that is as several: of each table every id once, in the order in which the pushes name
// them, with its gradients added up in f32 in the order of the pushes.
struct ReducedPush {
  struct TableRows {
    std::vector<uint64_t> ids;
    std::vector<float> gradients;  // (U, D)
  };

  std::vector<TableRows> tables;
  std::vector<PushGroup> groups;  // Refer to `tables`.
};

// pushes: of one step; learning rates are those of the first that names a table.
// Cost: a hash table of the ids.
std::shared_ptr<const ReducedPush> SumPushes(std::span<const HeldPush> pushes);

}  // namespace simurgh
