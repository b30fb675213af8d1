#include "train/rank_heartbeat.h"

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

RankHeartbeat::RankHeartbeat(Collective& collective, Channel channel,
                             std::function<void()> on_failure)
    : collective_(collective),
      channel_(channel),
      on_failure_(std::move(on_failure)),
      thread_([this] {
        SetThreadName("rank-heartbeat");
        Watch();
      }) {}

RankHeartbeat::~RankHeartbeat() { thread_.join(); }

void RankHeartbeat::Watch() {
  std::vector<Word> all(collective_.ranks());
  Word sent;
  while (true) {
    Status status = collective_.Gather(channel_, std::as_bytes(std::span(&sent, 1)),
                                       std::as_writable_bytes(std::span(all)));
    const bool failed = !status.ok();
    const bool ended = failed || std::ranges::find(all, 0U, &Word::done) == all.end();
    {
      const MutexLock lock(mutex_);
      if (failed) {
        failure_ = std::move(status);
      } else {
        others_staleness_ = 0;
        for (const Word& word : all) others_staleness_ += word.staleness;
        others_staleness_ -= sent.staleness;
      }
      ended_ = ended;
      changed_.NotifyAll();
      const auto next = std::chrono::steady_clock::now() + kPeriod;
      while (!ended && own_.done == sent.done) {
        if (!changed_.WaitUntil(mutex_, next)) break;
      }
      sent = own_;
    }
    if (failed) on_failure_();
    if (ended) return;
  }
}

Status RankHeartbeat::AwaitAll() {
  const MutexLock lock(mutex_);
  own_ = {.done = 1};
  changed_.NotifyAll();
  while (!ended_) changed_.Wait(mutex_);
  return std::exchange(failure_, absl::OkStatus());
}

uint32_t RankHeartbeat::SumStaleness(uint32_t own) {
  const MutexLock lock(mutex_);
  own_.staleness = own;
  return own + others_staleness_;
}

Status RankHeartbeat::TakeFailure() {
  const MutexLock lock(mutex_);
  return std::exchange(failure_, absl::OkStatus());
}

}  // namespace simurgh
