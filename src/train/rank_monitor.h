#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// Watches over ranks that wait for one another where nobody says who is at fault: in sums between
// their devices. On a thread of its own, the ranks tell one another again and again how many steps
// they have enqueued and done. So it notices one that is gone, one that is silent, and one that
// does not come to a step on which this rank waits; then it aborts the collective.
//
// Threads: any.
class RankMonitor {
 public:
  // timeout: how long another rank may keep this one waiting. Lifetime: of the collective, whose
  // channel kWatch is this one's, beyond this.
  RankMonitor(Collective& collective, std::chrono::milliseconds timeout);
  // For all ranks together.
  ~RankMonitor();

  void StepEnqueued();
  void StepEnded();

  // OK while nobody is at fault; else who is.
  Status status();
  // The same, given some time to find out.
  Status Await(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  struct Steps {
    uint64_t enqueued = 0;
    uint64_t ended = 0;

    bool operator==(const Steps&) const = default;
  };
  // Not a Status: those are not shared among threads.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;

    Status status() const { return Status(code, message); }
  };

  void Watch();  // The thread's.
  // After a round that told of all ranks' steps: what is wrong.
  std::optional<Failure> Judge(const std::vector<Steps>& all);
  void Fail(Failure failure);

  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds interval_;  // Between rounds.
  std::vector<Steps> last_;                   // The thread's, as its rounds told.
  Clock::time_point last_change_;             // Of them.

  Mutex mutex_;
  CondVar changed_;
  Steps own_ ABSL_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace simurgh
