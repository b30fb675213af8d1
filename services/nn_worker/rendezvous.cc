#include "services/nn_worker/rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/settings.h"

namespace simurgh {

Rendezvous::Rendezvous(uint32_t ranks, std::string plan)
    : plan_(std::move(plan)), addresses_(ranks) {}

bool Rendezvous::IsComplete() const {
  return std::ranges::all_of(addresses_, [](const auto& one) { return one.has_value(); });
}

Status Rendezvous::Arrive(uint32_t rank, uint32_t ranks, const std::string& plan,
                          std::string addresses) {
  bool complete = false;
  {
    const MutexLock lock(mutex_);
    if (ranks != addresses_.size() || rank >= ranks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " of ", ranks, " does not fit rank 0, which has ", addresses_.size(),
          " ranks; use the same nn_worker.instances for all nn-workers"));
    }
    const std::string difference =
        SettingsDifference(plan_, "rank 0", plan, absl::StrCat("rank ", rank));
    if (!difference.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("configurations differ: ", difference,
                       "; use the same file, overrides and training files for all ranks"));
    }
    std::optional<std::string>& place = addresses_[rank];
    if (IsComplete() && *place != addresses) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank, " was restarted after training had begun; restart all ranks"));
    }
    place = std::move(addresses);
    complete = IsComplete();
  }
  if (!complete) return absl::OkStatus();
  changed_.NotifyAll();
  if (on_complete_) on_complete_();
  return absl::OkStatus();
}

std::optional<std::vector<std::string>> Rendezvous::Addresses() const {
  const MutexLock lock(mutex_);
  if (!IsComplete()) return std::nullopt;
  std::vector<std::string> all;
  for (const auto& one : addresses_) all.push_back(*one);
  return all;
}

StatusOr<std::vector<std::string>> Rendezvous::Await(std::chrono::steady_clock::time_point deadline,
                                                     std::stop_token stop) {
  const std::stop_callback stopper(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  {
    const MutexLock lock(mutex_);
    while (!IsComplete() && !stop.stop_requested()) {
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    }
  }
  if (stop.stop_requested()) return absl::CancelledError("stopped while waiting for ranks");
  if (auto all = Addresses()) return *std::move(all);
  return absl::DeadlineExceededError(
      absl::StrCat(Missing(), " did not arrive within nn_worker.rank_timeout; start them"));
}

std::string Rendezvous::Missing() const {
  const MutexLock lock(mutex_);
  std::string missing = "ranks ";
  for (size_t rank = 0; rank < addresses_.size(); ++rank) {
    if (addresses_[rank]) continue;
    absl::StrAppend(&missing, missing.back() == ' ' ? "" : ", ", rank);
  }
  return missing;
}

}  // namespace simurgh
