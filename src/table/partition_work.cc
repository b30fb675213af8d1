#include "simurgh/table/partition_work.h"

#include <algorithm>
#include <utility>

#include "simurgh/base/check.h"
#include "table/partition_state.h"

namespace simurgh {
namespace {

auto IdentityOf(const StepId& step) { return std::tuple(step.run, step.rank, step.step); }

}  // namespace

PullWork::PullWork(Partition& partition, LookupMode mode, const StepId& step,
                   uint64_t acknowledged_steps, std::span<const PullGroup> groups)
    : partition_(*partition.state_),
      mode_(mode),
      step_(step),
      acknowledged_steps_(acknowledged_steps),
      groups_(groups) {}

Status PullWork::Begin() {
  begun_ = true;
  for (const PullGroup& group : groups_) {
    partition_.CheckGroup(group.table, group.ids.size(), group.rows.rows(), group.rows.columns());
  }
  SIMURGH_RETURN_IF_ERROR(
      partition_.window.CheckAcknowledged(step_.run, step_.rank, acknowledged_steps_));
  if (mode_ == LookupMode::kTrain) stamp_ = partition_.clock.Advance(step_.run, step_.step);
  return absl::OkStatus();
}

bool PullWork::Ready(size_t max_ids) {
  if (partition_.copy_memory == nullptr || mode_ == LookupMode::kEvaluate) return true;
  uint64_t bytes = 0;
  size_t at = at_;
  for (size_t group = group_; group < groups_.size() && max_ids > 0; ++group, at = 0) {
    const PullGroup& wanted = groups_[group];
    const size_t count = std::min(wanted.ids.size() - at, max_ids);
    max_ids -= count;
    bytes += partition_.tables[wanted.table]->EarlyBytes(count);
  }
  if (bytes > 0 && !partition_.copy_memory->Reserve(bytes)) {
    waits_ += waiting_ ? 0 : 1;
    waiting_ = true;
    return false;
  }
  waiting_ = false;
  reserved_from_ = partition_.copy_memory;
  reserved_bytes_ = bytes;
  return true;
}

StatusOr<bool> PullWork::Advance(size_t max_ids) {
  StatusOr<bool> over = ReadPiece(max_ids);
  // What the piece has copied is counted by itself.
  if (reserved_from_ != nullptr) reserved_from_->Release(std::exchange(reserved_bytes_, 0));
  return over;
}

StatusOr<bool> PullWork::ReadPiece(size_t max_ids) {
  SIMURGH_CHECK(max_ids > 0);
  SIMURGH_RETURN_IF_ERROR(partition_.CheckRun(step_.run));
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
  if (mode_ == LookupMode::kEvaluate) {
    const uint64_t found = table.Evaluate(ids, rows);
    report_.found += found;
    report_.unseen += count - found;
    return absl::OkStatus();
  }
  const PullReport pulled = table.Pull(ids, rows, stamp_);
  report_ += pulled;
  stopped_by_full_table_ = pulled.rejected_full > 0 && table.config().when_full == WhenFull::kStop;
  return stopped_by_full_table_ ? partition_.TableFull(group.table) : absl::OkStatus();
}

PushWork::PushWork(Partition& partition, const StepId& step, std::span<const PushGroup> groups)
    : partition_(*partition.state_), step_(step), groups_(groups) {}

bool PushWork::Ready() const {
  const auto& open = partition_.open_pushes;
  return begun_ || std::ranges::find(open, IdentityOf(step_)) == open.end();
}

Status PushWork::Begin() {
  begun_ = true;
  for (const PushGroup& group : groups_) {
    partition_.CheckGroup(group.table, group.ids.size(), group.gradients.rows(),
                          group.gradients.columns());
  }
  SIMURGH_ASSIGN_OR_RETURN(report_.repeated,
                           partition_.window.Applied(step_.run, step_.rank, step_.step));
  if (report_.repeated) {
    group_ = groups_.size();
    return absl::OkStatus();
  }
  // Recorded before the first piece: in between pieces the window may drop this trainer.
  partition_.window.Record(step_.run, step_.rank, step_.step);
  partition_.open_pushes.push_back(IdentityOf(step_));
  return absl::OkStatus();
}

StatusOr<bool> PushWork::Advance(size_t max_ids) {
  SIMURGH_CHECK(Ready());
  SIMURGH_CHECK(max_ids > 0);
  SIMURGH_RETURN_IF_ERROR(partition_.CheckRun(step_.run));
  if (!begun_) SIMURGH_RETURN_IF_ERROR(Begin());
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PushGroup& group = groups_[group_];
    const size_t count = std::min(group.ids.size() - at_, max_ids);
    if (count > 0) Apply(group, count);
    at_ += count;
    max_ids -= count;
    if (at_ < group.ids.size()) return false;
  }
  if (!report_.repeated) std::erase(partition_.open_pushes, IdentityOf(step_));
  return true;
}

void PushWork::Apply(const PushGroup& group, size_t count) {
  PushReport report = partition_.tables[group.table]->Push(group.ids.subspan(at_, count),
                                                           group.gradients.Rows(at_, count),
                                                           group.learning_rate, step_.step);
  report.not_finite_table = group.table;
  report_ += report;
}

}  // namespace simurgh
