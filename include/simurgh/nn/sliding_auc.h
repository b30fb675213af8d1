#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace simurgh {

// The exact AUC of the latest predictions.
//
// Threads: one owner.
class SlidingAuc {
 public:
  // window: samples, at least 1; 8 bytes each.
  explicit SlidingAuc(size_t window);

  // labels: each 0 or 1. scores: same length, finite. Cost: allocates until the window is full.
  void Add(std::span<const float> labels, std::span<const float> scores);

  // ExactAuc of the last `window` samples, or of all if there were fewer. Cost: one sort.
  double Value() const;

 private:
  const size_t window_;
  size_t next_ = 0;  // Position of the next sample.
  std::vector<float> labels_;
  std::vector<float> scores_;
};

}  // namespace simurgh
