#pragma once

namespace simurgh {

// What makes an evaluation better than another one. With several labels, of the first one.
enum class EvaluationMetric {
  kAuc,      // Larger is better.
  kLogLoss,  // Smaller is better.
};

}  // namespace simurgh
