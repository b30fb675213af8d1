#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "collective/collective.h"

namespace simurgh {

// Detects a lost rank when the ranks' work does not exchange messages among ranks: each rank sends
// its status to the others 20 times a second. Also a barrier at the end.
//
// Threads: one owner.
class RankHeartbeat {
 public:
  // channel: for this alone. on_failure: called once, on the heartbeat's thread, when the
  // collective fails; cancels what the owner waits for. Lifetime: the collective outlives this.
  RankHeartbeat(Collective& collective, Channel channel, std::function<void()> on_failure);
  // Requires AwaitAll or the collective's Abort before.
  ~RankHeartbeat();

  // Waits, without a timeout, until all ranks have called it. Errors: of the collective.
  Status AwaitAll();

  // Sums this rank's staleness and the latest of each other rank. The next heartbeat sends this
  // rank's.
  uint32_t SumStaleness(uint32_t own);

  // Returns the collective's failure once, if there was one.
  Status TakeFailure();

 private:
  struct Word {
    uint32_t done = 0;
    uint32_t staleness = 0;
  };

  void Watch();  // Runs on the thread.

  Collective& collective_;
  const Channel channel_;
  const std::function<void()> on_failure_;
  Mutex mutex_;
  CondVar changed_;
  Word own_ ABSL_GUARDED_BY(mutex_);
  uint32_t others_staleness_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Finds the rank at fault when sums between devices hang. A thread exchanges with the other ranks
// how many steps each has enqueued and completed. It aborts the collective when a rank is lost,
// silent, or does not reach a step that this rank waits for.
//
// Threads: any.
class RankMonitor {
 public:
  // timeout: how long this rank waits for another. Uses the collective's channel kWatch alone.
  // Lifetime: the collective outlives this.
  RankMonitor(Collective& collective, std::chrono::milliseconds timeout);
  // Waits until all ranks destroy theirs, or the collective has failed. Hence no rank leaves while
  // another one watches it.
  ~RankMonitor();

  void StepEnqueued();
  void StepEnded();

  // OK, or the rank at fault.
  Status status();
  // Waits up to `patience` for an error, then returns status().
  Status Await(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  struct Steps {
    uint64_t enqueued = 0;
    uint64_t ended = 0;
    uint64_t leaves = 0;  // 1 from the destructor on.

    bool operator==(const Steps&) const = default;
  };
  // Threads must not share a Status.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;

    Status status() const { return Status(code, message); }
  };

  void Watch();  // Runs on the thread.
  // Returns the fault that the ranks' steps show, if any.
  std::optional<Failure> FindFault(const std::vector<Steps>& all);
  void Fail(Failure failure);

  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;  // Interval between rounds.
  std::vector<Steps> last_;        // Steps of each rank in the last round. Threads: the thread.
  Clock::time_point last_change_;  // Time of the last change of last_.

  Mutex mutex_;
  CondVar changed_;
  Steps own_ ABSL_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace simurgh
