#include "train/rank_monitor.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/thread.h"

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

namespace {

using std::chrono::milliseconds;

// Rounds per timeout, and the maximum time between rounds.
constexpr int kRoundsOfTimeout = 20;
constexpr milliseconds kLongestInterval{500};

}  // namespace

RankMonitor::RankMonitor(Collective& collective, milliseconds timeout)
    : collective_(collective),
      timeout_(timeout),
      interval_(std::clamp(timeout / kRoundsOfTimeout, milliseconds(1), kLongestInterval)),
      last_(collective.ranks()),
      last_change_(Clock::now()),
      thread_([this] {
        SetThreadName("rank-monitor");
        Watch();
      }) {}

RankMonitor::~RankMonitor() {
  {
    const MutexLock lock(mutex_);
    own_.leaves = 1;
    changed_.NotifyAll();
  }
  thread_.join();
}

void RankMonitor::StepEnqueued() {
  const MutexLock lock(mutex_);
  ++own_.enqueued;
}

void RankMonitor::StepEnded() {
  const MutexLock lock(mutex_);
  ++own_.ended;
}

Status RankMonitor::status() {
  const MutexLock lock(mutex_);
  return failure_ ? failure_->status() : absl::OkStatus();
}

Status RankMonitor::Await(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const MutexLock lock(mutex_);
  while (!failure_ && Clock::now() < deadline) changed_.WaitUntil(mutex_, deadline);
  return failure_ ? failure_->status() : absl::OkStatus();
}

void RankMonitor::Fail(Failure failure) {
  collective_.Abort(failure.status());
  const MutexLock lock(mutex_);
  failure_ = std::move(failure);
  changed_.NotifyAll();
}

std::optional<RankMonitor::Failure> RankMonitor::FindFault(const std::vector<Steps>& all) {
  const auto now = Clock::now();
  if (all != last_) {
    last_ = all;
    last_change_ = now;
    return std::nullopt;
  }
  const Steps& own = all[collective_.rank()];
  if (own.enqueued == own.ended || now - last_change_ < timeout_) return std::nullopt;
  const auto late = std::ranges::min_element(all, {}, &Steps::enqueued);
  const std::string waited = absl::StrCat(timeout_.count(), " ms (nn_worker.rank_timeout)");
  if (late->enqueued < own.enqueued) {
    const auto rank = late - all.begin();
    return Failure{absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("rank ", rank, " of ", all.size(), " (nn_worker.instances.", rank,
                                ") has not reached step ", own.enqueued, " of the run for ", waited,
                                "; see its log and restart all ranks")};
  }
  return Failure{absl::StatusCode::kDeadlineExceeded,
                 absl::StrCat("the device sums of step ", own.enqueued,
                              " of the run have not completed for ", waited,
                              ", though all ranks have reached it; see the kernel's log for device "
                              "errors and restart all ranks")};
}

void RankMonitor::Watch() {
  std::vector<Steps> all(collective_.ranks());
  while (true) {
    Steps own;
    {
      const MutexLock lock(mutex_);
      own = own_;
    }
    const Status told = collective_.Gather(Channel::kWatch, std::as_bytes(std::span(&own, 1)),
                                           std::as_writable_bytes(std::span(all)));
    if (!told.ok()) return Fail({told.code(), std::string(told.message())});
    if (std::ranges::find(all, 0U, &Steps::leaves) == all.end()) return;
    if (std::optional<Failure> failure = FindFault(all)) return Fail(*std::move(failure));
    const auto next = Clock::now() + interval_;
    const MutexLock lock(mutex_);
    while (own_.leaves == own.leaves && Clock::now() < next) changed_.WaitUntil(mutex_, next);
  }
}

}  // namespace simurgh
