#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/data/compact_batch.h"
#include "simurgh/data/kept_rows.h"
#include "train/use_sketch.h"

namespace simurgh {

// Which rows of a rank's batches are kept in the memory of its network, and where: decided ahead,
// in the order of the steps, in which the network then reads and fills the slots. A row that came
// with the pull of step s is used up to step s + max_age_steps.
//
// Slots go to the rows that batches use most, of all tables: a row may be in the few slots of its
// bucket, and takes that of the least used one if it has itself been used more, with slot or
// without (or however often, where that one is too old to be of use). Uses count for less and less
// as they pass. A row that is too old comes anew and is put where it was. Within a step, slots are
// read before they are filled.
//
// Threads: one owner.
class KeptRowPlan {
 public:
  // tables: by feature. The few slots that make no whole bucket stay empty.
  KeptRowPlan(size_t slots, uint32_t max_age_steps, std::vector<uint32_t> tables);

  // Of the batch of the next step.
  KeptRows Next(const CompactBatch& batch);

  // Of all that a plan ever has, but for a batch's share.
  static size_t BytesFor(size_t slots) { return slots * (sizeof(Slot) + kCountersOfSlot); }

 private:
  static constexpr size_t kCountersOfSlot = 8;

  struct Slot {
    uint64_t id = 0;
    uint64_t step : 40 = 0;  // With whose pull the row came.
    uint64_t table : 16 = 0;
    uint64_t uses : 7 = 0;  // As UseSketch counts.
    uint64_t taken : 1 = 0;
  };
  static_assert(sizeof(Slot) == 16);
  // One of a batch's ids.
  struct Id {
    size_t number = 0;
    uint32_t table = 0;
    uint64_t id = 0;
    uint64_t hash = 0;
  };

  // Of the batch's ids in their order.
  void ListIds(const CompactBatch& batch);
  size_t FirstOfBucket(uint64_t hash) const;
  void Prefetch(uint64_t hash) const;
  // Null: the row has no slot.
  Slot* Find(const Id& id);
  // Of one that has a slot.
  void Use(const Id& id, Slot& slot, KeptRows& kept);
  // Of one that comes and has no slot yet; kNoSlot: it gets none.
  uint32_t TakeSlot(const Id& id);
  // Lets uses count for half, now and then.
  void Forget();

  const uint32_t max_age_steps_;
  const std::vector<uint32_t> tables_;
  const size_t table_count_;
  const size_t ways_;  // Slots of a bucket.
  std::vector<Slot> slots_;
  UseSketch others_;  // Uses of rows without a slot.
  size_t rows_ = 0;
  uint64_t step_ = 0;
  uint64_t adds_ = 0;  // To others_, since uses were halved.
  std::vector<Id> ids_;
  std::vector<Id> coming_;  // Those without a slot.
};

}  // namespace simurgh
