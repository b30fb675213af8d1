#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/mutex.h"
#include "base/status.h"
#include "collective/collective.h"
#include "config/training_config.h"

namespace simurgh {

// Sums dense gradients over the ranks. A thread sums each bucket while the backward pass computes
// the next ones. The owner sums the last bucket, which saves it waiting for the thread to be woken.
//
// Threads: one owner.
class GradientReducer {
 public:
  // overlap: false sums all buckets in Finish.
  // Lifetime: collective and gradients must outlive this.
  GradientReducer(Collective& collective, std::span<float> gradients, const AllReduceConfig& config,
                  bool overlap);
  // Requires Finish or the collective's Abort before.
  ~GradientReducer();

  // Sets the step of the next gradients.
  void BeginStep(uint64_t step) { step_ = step; }

  // `count` gradients from `first` on are computed. Order: as RankStep::on_gradients.
  void OnGradients(size_t first, size_t count);

  // Waits until all gradients of the step are sums. meanwhile: called once, unless summing has
  // failed before; if possible while this rank's last gradients are being sent.
  // Errors: of the collective.
  Status Finish(absl::FunctionRef<void()> meanwhile);

  // Clears the rounding errors, after a Finish whose sums are not applied.
  void DropResiduals();

 private:
  struct Bucket {
    size_t first = 0;
    size_t count = 0;
    uint64_t step = 0;
  };

  void CloseBucket();
  bool IsThreadBusy();
  // Waits for the thread; returns its first error.
  Status AwaitThread();
  Status SumBucket(const Bucket& bucket, absl::FunctionRef<void()> meanwhile);
  void Reduce();  // Runs on the thread.

  Collective& collective_;
  const std::span<float> gradients_;
  const ReducePrecision precision_;
  const size_t bucket_floats_;
  const bool overlap_;
  uint64_t step_ = 0;
  std::vector<float> residuals_;  // Rounding errors; empty for f32.
  Bucket open_;                   // Grows towards the front.
  std::vector<Bucket> held_;      // Buckets to sum in Finish: the last one; without overlap all.

  Mutex mutex_;
  CondVar changed_;
  std::deque<Bucket> buckets_ ABSL_GUARDED_BY(mutex_);  // The first one is being summed.
  Status status_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace simurgh
