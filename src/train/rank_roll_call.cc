#include "train/rank_roll_call.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kPeriod{50};

}  // namespace

RankRollCall::RankRollCall(Collective& collective, std::function<void()> on_failure)
    : collective_(collective), on_failure_(std::move(on_failure)), thread_([this] {
        SetThreadName("roll-call");
        Watch();
      }) {}

RankRollCall::~RankRollCall() { thread_.join(); }

StatusOr<bool> RankRollCall::Tell(bool done) {
  const std::byte own{done};
  std::vector<std::byte> all(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kGradients, std::span(&own, 1), all));
  return std::ranges::find(all, std::byte{0}) == all.end();
}

void RankRollCall::Watch() {
  bool done = false;
  while (true) {
    StatusOr<bool> all_done = Tell(done);
    const bool failed = !all_done.ok();
    const bool ended = failed || *all_done;
    {
      const MutexLock lock(mutex_);
      if (failed) failure_ = std::move(all_done).status();
      ended_ = ended;
      changed_.NotifyAll();
      const auto next = std::chrono::steady_clock::now() + kPeriod;
      while (!ended && !(done_ && !done)) {
        if (!changed_.WaitUntil(mutex_, next)) break;
      }
      done = done_;
    }
    if (failed) on_failure_();
    if (ended) return;
  }
}

Status RankRollCall::AwaitAll() {
  const MutexLock lock(mutex_);
  done_ = true;
  changed_.NotifyAll();
  while (!ended_) changed_.Wait(mutex_);
  return std::exchange(failure_, absl::OkStatus());
}

Status RankRollCall::TakeFailure() {
  const MutexLock lock(mutex_);
  return std::exchange(failure_, absl::OkStatus());
}

}  // namespace simurgh
