#include "table/push_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh {
namespace {

Status LostSteps(uint64_t first, uint64_t last, uint64_t run, uint32_t rank) {
  return absl::DataLossError(
      absl::StrCat("table: some pushes of steps ", first, "..", last, " of rank ", rank, " in run ",
                   run, " are missing, so this server has lost rows; start a new run"));
}

}  // namespace

StatusOr<bool> PushWindow::Applied(uint64_t run, uint32_t rank, uint64_t step) const {
  const Trainer* trainer = Find(run, rank);
  const uint64_t next = trainer == nullptr ? 0 : trainer->next_step;
  if (step < next) return true;
  if (step - next >= kOpenSteps) {
    if (trainer != nullptr && trainer->misses_steps) return false;
    return LostSteps(next, step - 1, run, rank);
  }
  return trainer != nullptr && trainer->steps[step % kOpenSteps];
}

PushWindow::Trainer& PushWindow::Add(uint64_t run, uint32_t rank) {
  if (trainers_.size() == kMaxRanks) {
    trainers_.erase(std::ranges::min_element(trainers_, {}, &Trainer::last_use));
  }
  return trainers_.emplace_back(
      Trainer{.run = run, .rank = rank, .last_use = ++uses_, .steps = {}});
}

void PushWindow::Record(uint64_t run, uint32_t rank, uint64_t step) {
  auto* trainer = const_cast<Trainer*>(Find(run, rank));
  if (trainer == nullptr) trainer = &Add(run, rank);
  trainer->last_use = ++uses_;
  SIMURGH_CHECK_LE(trainer->next_step, step);
  if (trainer->misses_steps && step - trainer->next_step >= kOpenSteps) {
    // Gives up the missing steps that are too old for a push to be under way.
    const uint64_t next = step - kOpenSteps / 2;
    const uint64_t end = std::min(next, trainer->next_step + kOpenSteps);
    for (uint64_t old = trainer->next_step; old < end; ++old)
      trainer->steps.reset(old % kOpenSteps);
    trainer->next_step = next;
  }
  SIMURGH_CHECK_LT(step - trainer->next_step, kOpenSteps);
  trainer->steps.set(step % kOpenSteps);
  for (; trainer->steps[trainer->next_step % kOpenSteps]; ++trainer->next_step) {
    trainer->steps.reset(trainer->next_step % kOpenSteps);
  }
}

bool PushWindow::HasFirst(uint64_t run, uint32_t rank, uint64_t steps) const {
  const Trainer* trainer = Find(run, rank);
  const uint64_t next = trainer == nullptr ? 0 : trainer->next_step;
  if (steps <= next) return true;
  return trainer != nullptr && trainer->misses_steps && steps - next <= kOpenSteps &&
         trainer->steps[(steps - 1) % kOpenSteps];
}

bool PushWindow::misses_steps(uint64_t run, uint32_t rank) const {
  const Trainer* trainer = Find(run, rank);
  return trainer != nullptr && trainer->misses_steps;
}

Status PushWindow::CheckAcknowledged(uint64_t run, uint32_t rank,
                                     uint64_t acknowledged_steps) const {
  const Trainer* trainer = Find(run, rank);
  const uint64_t next = trainer == nullptr ? 0 : trainer->next_step;
  if (acknowledged_steps <= next) return absl::OkStatus();
  if (trainer != nullptr && trainer->misses_steps) return absl::OkStatus();
  return LostSteps(next, acknowledged_steps - 1, run, rank);
}

const PushWindow::Trainer* PushWindow::Find(uint64_t run, uint32_t rank) const {
  const auto found = std::ranges::find_if(trainers_, [&](const Trainer& trainer) {
    return trainer.run == run && trainer.rank == rank;
  });
  return found == trainers_.end() ? nullptr : &*found;
}

}  // namespace simurgh
