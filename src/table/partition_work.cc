#include "simurgh/table/partition_work.h"

#include <algorithm>

#include "simurgh/base/check.h"
#include "table/partition_state.h"

namespace simurgh {
namespace {

OpenPush IdentityOf(const StepId& position, uint32_t part) {
  return {.run = position.run, .rank = position.rank, .step = position.step, .part = part};
}

}  // namespace

PullWork::PullWork(Partition& partition, LookupMode purpose, const StepId& position,
                   uint64_t acknowledged_steps, std::span<const PullGroup> groups)
    : partition_(*partition.state_),
      purpose_(purpose),
      position_(position),
      acknowledged_steps_(acknowledged_steps),
      groups_(groups) {}

Status PullWork::Begin() {
  begun_ = true;
  for (const PullGroup& group : groups_) {
    SIMURGH_RETURN_IF_ERROR(partition_.CheckGroup("pull", group.table, group.ids.size(),
                                                  group.rows.rows(), group.rows.columns()));
  }
  SIMURGH_RETURN_IF_ERROR(
      partition_.window.CheckAcknowledged(position_.run, position_.rank, acknowledged_steps_));
  if (purpose_ == LookupMode::kTrain) {
    stamp_ = partition_.clock.Advance(position_.run, position_.step);
  }
  return absl::OkStatus();
}

StatusOr<bool> PullWork::Advance(size_t max_ids) {
  SIMURGH_CHECK(max_ids > 0);
  if (!begun_) SIMURGH_RETURN_IF_ERROR(Begin());
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PullGroup& group = groups_[group_];
    const size_t count = std::min(group.ids.size() - at_, max_ids);
    if (count > 0) SIMURGH_RETURN_IF_ERROR(Read(group, count));
    at_ += count;
    max_ids -= count;
    if (at_ < group.ids.size()) return false;
  }
  return true;
}

Status PullWork::Read(const PullGroup& group, size_t count) {
  const auto ids = group.ids.subspan(at_, count);
  const EncodedRows rows = group.rows.Rows(at_, count);
  Table& table = *partition_.tables[group.table];
  if (purpose_ == LookupMode::kEvaluate) {
    const uint64_t found = table.Evaluate(ids, rows);
    report_.found += found;
    report_.unseen += count - found;
    return absl::OkStatus();
  }
  const Table::PullCounts counts = table.Pull(ids, rows, stamp_);
  report_.found += counts.found;
  report_.created += counts.created;
  report_.refused += counts.refused;
  report_.evicted += counts.evicted;
  report_.evicted_for_space += counts.evicted_for_space;
  report_.rejected_full += counts.rejected_full;
  return counts.rejected_full > 0 ? partition_.CheckRoom(group.table) : absl::OkStatus();
}

PushWork::PushWork(Partition& partition, const StepId& position, uint32_t part, uint32_t parts,
                   std::span<const PushGroup> groups)
    : partition_(*partition.state_),
      position_(position),
      part_(part),
      parts_(parts),
      groups_(groups) {}

bool PushWork::Ready() const {
  const std::vector<OpenPush>& open = partition_.open_pushes;
  if (begun_ || open.empty()) return true;
  return !partition_.journal.has_value() &&
         std::ranges::find(open, IdentityOf(position_, part_)) == open.end();
}

Status PushWork::Begin() {
  begun_ = true;
  for (const PushGroup& group : groups_) {
    SIMURGH_RETURN_IF_ERROR(partition_.CheckGroup(
        "push", group.table, group.ids.size(), group.gradients.rows(), group.gradients.columns()));
  }
  SIMURGH_ASSIGN_OR_RETURN(
      report_.repeated,
      partition_.window.Applied(position_.run, position_.rank, position_.step, part_, parts_));
  if (report_.repeated) {
    group_ = groups_.size();
    return absl::OkStatus();
  }
  // Now, for what comes between can change whether it may: a trainer's window can be forgotten.
  partition_.window.Record(position_.run, position_.rank, position_.step, part_, parts_);
  partition_.open_pushes.push_back(IdentityOf(position_, part_));
  if (partition_.journal) {
    partition_.journal->BeginPush(position_.run, position_.rank, position_.step, part_, parts_);
  }
  return absl::OkStatus();
}

StatusOr<bool> PushWork::Advance(size_t max_ids) {
  SIMURGH_CHECK(Ready());
  SIMURGH_CHECK(max_ids > 0);
  if (!begun_) SIMURGH_RETURN_IF_ERROR(Begin());
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PushGroup& group = groups_[group_];
    const size_t count = std::min(group.ids.size() - at_, max_ids);
    if (count > 0) Apply(group, count);
    at_ += count;
    max_ids -= count;
    if (at_ < group.ids.size()) return false;
  }
  if (!report_.repeated) End();
  return true;
}

void PushWork::Apply(const PushGroup& group, size_t count) {
  Table& table = *partition_.tables[group.table];
  PushJournal* const journal = partition_.journal ? &*partition_.journal : nullptr;
  if (journal != nullptr) {
    journal->BeginGroup(static_cast<uint32_t>(group_), table.arena_record(), at_);
  }
  const uint64_t updated =
      table.Push(group.ids.subspan(at_, count), group.gradients.Rows(at_, count),
                 group.learning_rate, position_.step, journal);
  report_.updated += updated;
  report_.missing += count - updated;
}

void PushWork::End() {
  if (partition_.journal) partition_.journal->EndPush();
  std::erase(partition_.open_pushes, IdentityOf(position_, part_));
}

}  // namespace simurgh
