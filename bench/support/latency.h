#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace simurgh::bench {

// Durations in buckets that are at most 1/128 of their value wide. Fixed memory: a measurement of
// peak memory does not see how many were recorded.
class LatencyHistogram {
 public:
  void Record(uint64_t nanoseconds) {
    ++counts_[BucketOf(nanoseconds)];
    ++total_;
  }

  // The value that a share `quantile` (0 to 1) of the durations does not exceed, 0 if there are
  // none: nanoseconds, the middle of its bucket.
  double Quantile(double quantile) const {
    const auto wanted = static_cast<uint64_t>(quantile * static_cast<double>(total_) + 0.5);
    uint64_t seen = 0;
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      seen += counts_[bucket];
      if (seen != 0 && seen >= wanted) return MiddleOf(bucket);
    }
    return 0;
  }

 private:
  static constexpr uint32_t kStepBits = 7;
  static constexpr uint64_t kSteps = uint64_t{1} << kStepBits;
  static constexpr size_t kBuckets = (64 - kStepBits + 1) * kSteps;

  // Values below 2 * kSteps have a bucket each; above, every doubling is cut into kSteps.
  static size_t BucketOf(uint64_t value) {
    if (value < kSteps) return value;
    const uint32_t shift = static_cast<uint32_t>(std::bit_width(value)) - 1 - kStepBits;
    return (shift + 1) * kSteps + ((value >> shift) - kSteps);
  }
  static double MiddleOf(size_t bucket) {
    if (bucket < 2 * kSteps) return static_cast<double>(bucket);
    const size_t shift = bucket / kSteps - 1;
    const uint64_t low = (bucket % kSteps + kSteps) << shift;
    return static_cast<double>(low) + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
  }

  std::array<uint32_t, kBuckets> counts_{};
  uint64_t total_ = 0;
};

}  // namespace simurgh::bench
