#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// Notices that another rank has gone where the work itself waits for nobody, and brings all ranks
// together when each is done: they tell one another some times a second on Channel::kGradients, on
// which nothing else may be said meanwhile.
//
// Threads: one owner.
class RankRollCall {
 public:
  // on_failure: called once, on a thread of the watch, when the collective fails; ends what the
  // owner waits for. Lifetime: the collective outlives this.
  RankRollCall(Collective& collective, std::function<void()> on_failure);
  // After AwaitAll, or after the collective's Abort.
  ~RankRollCall();

  // This rank is done; waits, however long it takes, until all are. Errors: of the collective.
  Status AwaitAll();

  // The collective's failure, if there was one; once.
  Status TakeFailure();

 private:
  void Watch();  // The thread's.
  // Tells the others, and whether all are done.
  StatusOr<bool> Tell(bool done);

  Collective& collective_;
  const std::function<void()> on_failure_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace simurgh
