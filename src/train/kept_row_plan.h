#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "simurgh/data/compact_batch.h"
#include "simurgh/data/kept_rows.h"

namespace simurgh {

// Which rows of a rank's batches are kept in the memory of its network, and where: decided ahead,
// in the order of the steps, in which the network then reads and fills the slots. A row that came
// with the pull of step s is used up to step s + max_age_steps.
//
// Slots are given to rows in the order of their first coming, round after round; a row that is too
// old comes anew and is put where it was. Within a step, slots are read before they are filled.
//
// Threads: one owner.
class KeptRowPlan {
 public:
  // tables: by feature.
  KeptRowPlan(size_t slots, uint32_t max_age_steps, std::vector<uint32_t> tables);

  // Of the batch of the next step.
  KeptRows Next(const CompactBatch& batch);

 private:
  struct Slot {
    uint32_t table = 0;
    uint64_t id = 0;
    uint64_t step = 0;  // With whose pull the row came.
    bool taken = false;
  };

  // Of a row that comes, and has no slot yet.
  uint32_t TakeSlot(uint32_t table, uint64_t id);

  const uint32_t max_age_steps_;
  const std::vector<uint32_t> tables_;
  std::vector<Slot> slots_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> slot_of_;  // By table and id.
  size_t next_slot_ = 0;
  uint64_t step_ = 0;
};

}  // namespace simurgh
