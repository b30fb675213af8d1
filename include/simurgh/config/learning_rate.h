#pragma once

#include <cstdint>

namespace simurgh {

// How a learning rate follows the trainer's step; the formulas stand in config/README.md.
struct LearningRateSchedule {
  enum class Kind { kConstant, kLinear, kExponential, kCosine };

  Kind kind = Kind::kConstant;  // After the warm-up.
  uint64_t warmup_steps = 0;
  uint64_t decay_steps = 100'000;  // All but constant, as what follows.
  float decay_factor = 0.5F;       // exponential: (0, 1], each decay_steps.
  float end_factor = 0.0F;         // What is left of the rate in the end, [0, 1].
};

}  // namespace simurgh
