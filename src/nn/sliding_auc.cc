#include "simurgh/nn/sliding_auc.h"

#include "simurgh/base/check.h"
#include "simurgh/nn/metrics.h"

namespace simurgh {

SlidingAuc::SlidingAuc(size_t window) : window_(window) { SIMURGH_CHECK_LT(0U, window); }

void SlidingAuc::Add(std::span<const float> labels, std::span<const float> scores) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels_.size() < window_) {
      labels_.push_back(labels[i]);
      scores_.push_back(scores[i]);
    } else {
      labels_[next_] = labels[i];
      scores_[next_] = scores[i];
    }
    next_ = (next_ + 1) % window_;
  }
}

double SlidingAuc::Value() const { return ExactAuc(labels_, scores_); }

}  // namespace simurgh
