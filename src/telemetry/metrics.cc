#include "simurgh/telemetry/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simurgh/base/check.h"

namespace simurgh {

namespace internal {

size_t MetricSlot() {
  static std::atomic<size_t> next_thread{0};
  thread_local const size_t slot =
      next_thread.fetch_add(1, std::memory_order_relaxed) % kMetricSlots;
  return slot;
}

}  // namespace internal

constexpr size_t kCountsALine = std::tuple_size_v<decltype(internal::BucketCells::counts)>;

uint64_t Counter::value() const {
  uint64_t sum = 0;
  for (const auto& cell : cells_) sum += cell.value.load(std::memory_order_relaxed);
  return sum;
}

uint64_t Histogram::Snapshot::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)),
      lines_a_slot_(bounds_.size() / kCountsALine + 1),
      counts_(internal::kMetricSlots * lines_a_slot_) {
  for (size_t i = 0; i < bounds_.size(); ++i) {
    SIMURGH_CHECK(std::isfinite(bounds_[i])) << "bound " << i << " is " << bounds_[i];
    if (i > 0) SIMURGH_CHECK_LT(bounds_[i - 1], bounds_[i]) << "bounds must ascend";
  }
}

void Histogram::Observe(double value, uint64_t times) {
  const size_t slot = internal::MetricSlot();
  size_t bucket = bounds_.size();
  if (std::isfinite(value)) {
    bucket = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                 bounds_.begin());
    sums_[slot].value.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }
  counts_[slot * lines_a_slot_ + bucket / kCountsALine].counts[bucket % kCountsALine].fetch_add(
      times, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot result;
  result.counts.resize(bounds_.size() + 1);
  for (size_t slot = 0; slot < internal::kMetricSlots; ++slot) {
    for (size_t bucket = 0; bucket < result.counts.size(); ++bucket) {
      result.counts[bucket] +=
          counts_[slot * lines_a_slot_ + bucket / kCountsALine].counts[bucket % kCountsALine].load(
              std::memory_order_relaxed);
    }
    result.sum += sums_[slot].value.load(std::memory_order_relaxed);
  }
  return result;
}

std::vector<double> ExponentialSeconds(std::chrono::nanoseconds first, double factor,
                                       size_t count) {
  SIMURGH_CHECK_LT(0, first.count());
  SIMURGH_CHECK_LT(1.0, factor);
  std::vector<double> bounds(count);
  double bound = std::chrono::duration<double>(first).count();
  for (double& each : bounds) {
    each = bound;
    bound *= factor;
  }
  return bounds;
}

std::vector<double> LatencyBuckets() {
  return ExponentialSeconds(std::chrono::microseconds(20), 2.0, 21);
}

std::vector<double> PowersOfTwo(uint64_t largest) {
  std::vector<double> bounds{1.0};
  while (bounds.back() < static_cast<double>(largest)) bounds.push_back(2.0 * bounds.back());
  return bounds;
}

}  // namespace simurgh
