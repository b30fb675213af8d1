#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"
#include "simurgh/config/training_config.h"
#include "simurgh/telemetry/timeline.h"

namespace simurgh {

// Sums dense gradients over the ranks, on a thread of its own: bucket after bucket, as soon as the
// backward pass has made one, while it makes the others.
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

  // Waits until all gradients of the step are sums.
  // Errors: of the collective.
  Status Finish();

  // After Finish: its sums are not applied, and what rounding took off them is no longer owed.
  void DropResiduals();

 private:
  struct Bucket {
    size_t first = 0;
    size_t count = 0;
    uint64_t step = 0;
  };

  void StartBucket();
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
  std::vector<Bucket> held_;      // Without overlap: until Finish.

  Mutex mutex_;
  CondVar changed_;
  std::deque<Bucket> buckets_ ABSL_GUARDED_BY(mutex_);  // The first one is being summed.
  Status status_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace simurgh
