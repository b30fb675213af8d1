#include "train/kept_row_plan.h"

#include <algorithm>

#include "simurgh/base/check.h"

namespace simurgh {

KeptRowPlan::KeptRowPlan(size_t slots, uint32_t max_age_steps, std::vector<uint32_t> tables)
    : max_age_steps_(max_age_steps), tables_(std::move(tables)), slots_(slots) {
  SIMURGH_CHECK_LT(slots, size_t{KeptRows::kNoSlot});
}

KeptRows KeptRowPlan::Next(const CompactBatch& batch) {
  KeptRows kept;
  kept.here.resize((batch.ids.size() + 63) / 64);
  kept.slots.resize(batch.ids.size(), KeptRows::kNoSlot);
  std::vector<uint32_t> table_of_list(batch.list_count());
  for (size_t f = 0; f < tables_.size(); ++f) table_of_list[batch.list_of(f)] = tables_[f];
  size_t i = 0;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    for (const uint64_t id : batch.list(list)) {
      const auto found = slot_of_.find({table_of_list[list], id});
      if (found == slot_of_.end()) {
        kept.slots[i++] = TakeSlot(table_of_list[list], id);
        continue;
      }
      Slot& slot = slots_[found->second];
      const uint64_t age = step_ - slot.step;
      if (age > max_age_steps_) {
        slot.step = step_;
        kept.slots[i] = found->second;
      } else if (age > 0) {
        kept.here[i / 64] |= uint64_t{1} << (i % 64);
        kept.slots[i] = found->second;
        kept.age_steps = std::max(kept.age_steps, static_cast<uint32_t>(age));
        ++kept.hits;
      }  // Else another list of this batch brings it: slots are filled once all have been read.
      ++i;
    }
  }
  kept.rows = slot_of_.size();
  ++step_;
  return kept;
}

uint32_t KeptRowPlan::TakeSlot(uint32_t table, uint64_t id) {
  if (slots_.empty()) return KeptRows::kNoSlot;
  const auto number = static_cast<uint32_t>(next_slot_);
  next_slot_ = (next_slot_ + 1) % slots_.size();
  Slot& slot = slots_[number];
  if (slot.taken) {
    // A step fills a slot once.
    if (slot.step == step_) return KeptRows::kNoSlot;
    slot_of_.erase({slot.table, slot.id});
  }
  slot = {.table = table, .id = id, .step = step_, .taken = true};
  slot_of_.emplace(std::pair(table, id), number);
  return number;
}

}  // namespace simurgh
