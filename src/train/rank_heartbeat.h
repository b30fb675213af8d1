#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"

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

}  // namespace simurgh
