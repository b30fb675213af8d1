#include "train/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

// Indexed by AllReduceConfig::Precision.
constexpr ReducePrecision kPrecisions[] = {ReducePrecision::kF32, ReducePrecision::kBf16,
                                           ReducePrecision::kInt8};

}  // namespace

GradientReducer::GradientReducer(Collective& collective, std::span<float> gradients,
                                 const AllReduceConfig& config, bool overlap)
    : collective_(collective),
      gradients_(gradients),
      precision_(kPrecisions[static_cast<size_t>(config.precision)]),
      bucket_floats_(config.bucket_bytes / sizeof(float)),
      overlap_(overlap),
      residuals_(precision_ == ReducePrecision::kF32 ? 0 : gradients.size()),
      open_{.first = gradients.size()},
      thread_([this] {
        SetThreadName("allreduce");
        Reduce();
      }) {}

GradientReducer::~GradientReducer() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void GradientReducer::OnGradients(size_t first, size_t count) {
  SIMURGH_CHECK_EQ(first + count, open_.first);
  open_.first = first;
  open_.count += count;
  if (open_.count >= bucket_floats_ || first == 0) CloseBucket();
}

void GradientReducer::CloseBucket() {
  Bucket bucket = std::exchange(open_, Bucket{.first = open_.first});
  bucket.step = step_;
  if (!overlap_ || bucket.first == 0) {
    held_.push_back(bucket);
    return;
  }
  const MutexLock lock(mutex_);
  buckets_.push_back(bucket);
  changed_.NotifyAll();
}

Status GradientReducer::Finish(absl::FunctionRef<void()> meanwhile) {
  SIMURGH_CHECK_EQ(open_.first, 0U);
  open_ = {.first = gradients_.size()};
  bool called = false;
  const auto call_once = [&] {
    if (!std::exchange(called, true)) meanwhile();
  };
  if (!overlap_ || IsThreadBusy()) call_once();
  SIMURGH_RETURN_IF_ERROR(AwaitThread());
  for (const Bucket& bucket : std::exchange(held_, {})) {
    SIMURGH_RETURN_IF_ERROR(SumBucket(bucket, call_once));
  }
  call_once();
  return absl::OkStatus();
}

bool GradientReducer::IsThreadBusy() {
  const MutexLock lock(mutex_);
  return !buckets_.empty();
}

Status GradientReducer::AwaitThread() {
  const MutexLock lock(mutex_);
  while (!buckets_.empty() && status_.ok()) changed_.Wait(mutex_);
  return std::exchange(status_, absl::OkStatus());
}

Status GradientReducer::SumBucket(const Bucket& bucket, absl::FunctionRef<void()> meanwhile) {
  const TimelineSpan span("sum", bucket.step);
  const std::span<float> residual(residuals_);
  return collective_.Sum(
      Channel::kGradients, gradients_.subspan(bucket.first, bucket.count), precision_,
      residual.empty() ? residual : residual.subspan(bucket.first, bucket.count), meanwhile);
}

void GradientReducer::DropResiduals() { std::ranges::fill(residuals_, 0.0F); }

void GradientReducer::Reduce() {
  while (true) {
    Bucket bucket;
    {
      const MutexLock lock(mutex_);
      while (buckets_.empty() && !ending_) changed_.Wait(mutex_);
      if (buckets_.empty()) return;
      bucket = buckets_.front();
    }
    Status status = SumBucket(bucket, [] {});
    const MutexLock lock(mutex_);
    buckets_.pop_front();
    if (!status.ok()) status_ = std::move(status);
    changed_.NotifyAll();
  }
}

}  // namespace simurgh
