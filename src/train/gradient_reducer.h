#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"
#include "simurgh/config/training_config.h"
#include "simurgh/telemetry/timeline.h"

namespace simurgh {

// Sums dense gradients over the ranks, on a thread of its own: bucket after bucket, as soon as the
// backward pass has made one, while it makes the others. The last one has nothing to be hidden
// behind: it is summed by the owner, who would else wait for two threads, its own and the other
// ranks', to be run.
//
// Threads: one owner.
class GradientReducer {
 public:
  // overlap: false waits with all buckets for Finish. Lifetime: collective and gradients outlive
  // this.
  // timeline: null, or told of sums; outlives this, too.
  GradientReducer(Collective& collective, std::span<float> gradients, const AllReduceConfig& config,
                  bool overlap, Timeline* timeline);
  // After Finish, or after the collective's Abort.
  ~GradientReducer();

  // Of the gradients that come now.
  void BeginStep(uint64_t step) { step_ = step; }

  // The gradients from `first` on are there. In the order of RankStep::on_gradients.
  void OnGradients(size_t first, size_t count);

  // Waits until all gradients of the step are sums. meanwhile: called once, unless all has failed
  // before, where possible while this rank's last gradients are on their way.
  // Errors: of the collective.
  Status Finish(absl::FunctionRef<void()> meanwhile);

  // After Finish: its sums are not applied, and what rounding took off them is no longer owed.
  void DropResiduals();

 private:
  struct Bucket {
    size_t first = 0;
    size_t count = 0;
    uint64_t step = 0;
  };

  void CloseBucket();
  bool IsThreadBusy();
  // Waits for the thread, and returns what it has come to.
  Status AwaitThread();
  Status SumBucket(const Bucket& bucket, absl::FunctionRef<void()> meanwhile);
  void Reduce();  // The thread's.

  Collective& collective_;
  const std::span<float> gradients_;
  const ReducePrecision precision_;
  const size_t bucket_floats_;
  const bool overlap_;
  Timeline* const timeline_;
  uint64_t step_ = 0;
  std::vector<float> residuals_;  // Of all gradients, where precision leaves any.
  Bucket open_;                   // Grows towards the front.
  std::vector<Bucket> held_;      // Until Finish: the last one; without overlap all.

  Mutex mutex_;
  CondVar changed_;
  std::deque<Bucket> buckets_ ABSL_GUARDED_BY(mutex_);  // The first one is being summed.
  Status status_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace simurgh
