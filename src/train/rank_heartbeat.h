#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// Notices that another rank has gone where the work itself waits for nobody, or for servers that
// wait for that rank; and brings all ranks together when each is done: they tell one another 20
// times a second.
//
// Threads: one owner.
class RankHeartbeat {
 public:
  // channel: on which nothing else is said meanwhile. on_failure: called once, on a thread of the
  // watch, when the collective fails; ends what the owner waits for. Lifetime: the collective
  // outlives this.
  RankHeartbeat(Collective& collective, Channel channel, std::function<void()> on_failure);
  // After AwaitAll, or after the collective's Abort.
  ~RankHeartbeat();

  // This rank is done; waits, however long it takes, until all are. Errors: of the collective.
  Status AwaitAll();

  // The staleness of this rank's latest batch and those of the others', as they told last. The
  // others are told of this one the next time.
  uint32_t SumStaleness(uint32_t own);

  // The collective's failure, if there was one; once.
  Status TakeFailure();

 private:
  struct Word {
    uint32_t done = 0;
    uint32_t staleness = 0;
  };

  void Watch();  // The thread's.
  // Tells the others; what all have told.
  StatusOr<std::vector<Word>> Tell(Word own);

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
