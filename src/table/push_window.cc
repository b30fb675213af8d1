#include "table/push_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

Status LostSteps(uint64_t first, uint64_t last, uint64_t run, uint32_t rank) {
  return absl::DataLossError(absl::StrCat(
      "table: this server has not seen all of steps ", first, "..", last, " of rank ", rank,
      " in run ", run, ": it lost its rows; start a new run, from a checkpoint if there is one"));
}

}  // namespace

StatusOr<bool> RankWindow::Applied(uint64_t step, uint32_t part, uint32_t parts) const {
  if (step < next_step_) return true;
  SIMURGH_CHECK_LT(step - next_step_, kOpenSteps);
  const OpenStep& open = slot(step);
  if (open.parts != 0 && open.parts != parts) {
    return absl::InvalidArgumentError(absl::StrCat("table: push of step ", step, " has ", parts,
                                                   " parts, an earlier one said ", open.parts));
  }
  return (open.applied >> part & 1) != 0;
}

void RankWindow::Record(uint64_t step, uint32_t part, uint32_t parts) {
  SIMURGH_CHECK_LE(next_step_, step);
  SIMURGH_CHECK_LT(step - next_step_, kOpenSteps);
  OpenStep& open = slot(step);
  open.parts = parts;
  open.applied |= uint64_t{1} << part;
  while (slot(next_step_).parts != 0 && slot(next_step_).applied == AllOf(slot(next_step_).parts)) {
    slot(next_step_) = OpenStep();
    ++next_step_;
  }
}

StatusOr<bool> PushWindow::Applied(uint64_t run, uint32_t rank, uint64_t step, uint32_t part,
                                   uint32_t parts) const {
  if (parts == 0 || parts > RankWindow::kMaxParts || part >= parts) {
    return absl::InvalidArgumentError(absl::StrCat("table: push is part ", part, " of ", parts,
                                                   "; a step has 1 to ", RankWindow::kMaxParts,
                                                   " parts, counted from 0"));
  }
  const RankWindow* window = Find(run, rank);
  const uint64_t next = window == nullptr ? 0 : window->next_step();
  if (step >= next && step - next >= RankWindow::kOpenSteps) {
    return LostSteps(next, step - 1, run, rank);
  }
  if (window == nullptr) return false;
  return window->Applied(step, part, parts);
}

void PushWindow::Record(uint64_t run, uint32_t rank, uint64_t step, uint32_t part, uint32_t parts) {
  FindOrAdd(run, rank).Record(step, part, parts);
}

Status PushWindow::CheckAcknowledged(uint64_t run, uint32_t rank,
                                     uint64_t acknowledged_steps) const {
  const RankWindow* window = Find(run, rank);
  const uint64_t next = window == nullptr ? 0 : window->next_step();
  if (acknowledged_steps <= next) return absl::OkStatus();
  return LostSteps(next, acknowledged_steps - 1, run, rank);
}

const RankWindow* PushWindow::Find(uint64_t run, uint32_t rank) const {
  for (const Trainer& trainer : trainers_) {
    if (trainer.run == run && trainer.rank == rank) return trainer.window.get();
  }
  return nullptr;
}

RankWindow& PushWindow::FindOrAdd(uint64_t run, uint32_t rank) {
  ++uses_;
  for (Trainer& trainer : trainers_) {
    if (trainer.run != run || trainer.rank != rank) continue;
    trainer.last_use = uses_;
    return *trainer.window;
  }
  if (trainers_.size() == kMaxTrainers) {
    trainers_.erase(std::min_element(
        trainers_.begin(), trainers_.end(),
        [](const Trainer& a, const Trainer& b) { return a.last_use < b.last_use; }));
  }
  trainers_.push_back({run, rank, uses_, std::make_unique<RankWindow>()});
  return *trainers_.back().window;
}

}  // namespace simurgh
