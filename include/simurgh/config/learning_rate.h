#pragma once

#include <cstdint>

namespace simurgh {

// Factor of a learning rate by step; config/README.md has the formulas.
struct LearningRateSchedule {
  enum class Kind { kConstant, kLinear, kExponential, kCosine };

  Kind kind = Kind::kConstant;  // After the warm-up.
  uint64_t warmup_steps = 0;
  uint64_t decay_steps = 100'000;  // This and the rest: not for kConstant.
  float decay_factor = 0.5F;       // exponential: (0, 1], per decay_steps.
  float end_factor = 0.0F;         // Final share of the rate, [0, 1].
};

}  // namespace simurgh
