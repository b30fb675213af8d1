#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simurgh/config/data_config.h"

namespace simurgh {

// A sample with ids as ranks.
struct SampleDraw {
  static constexpr uint64_t kMissingRank = ~uint64_t{0};
  static constexpr int32_t kMissingDense = INT32_MIN;

  std::array<uint64_t, kCriteoIdColumns> ranks;
  std::array<int32_t, kCriteoDenseColumns> dense;
};

// The log-odds that labels are drawn from; see Generator.
//
// Threads: any; const after construction.
class Teacher {
 public:
  struct Logits {
    double full;
    double additive;  // Without the pairs.
    double dense;     // The dense part and the bias.
  };

  // Scales the sums and sets the bias. calibration: 10,000 or more independent samples.
  Teacher(uint64_t seed, const std::vector<SampleDraw>& calibration);

  Logits Score(const SampleDraw& draw) const;

 private:
  struct Parts {
    double dense = 0.0;
    double ids = 0.0;
    double pairs = 0.0;
  };

  double Latent(size_t feature, uint64_t rank) const;
  Parts Evaluate(const SampleDraw& draw) const;

  std::array<double, kCriteoDenseColumns> dense_weights_;
  std::array<uint64_t, kCriteoIdColumns> latent_keys_;
  std::array<double, kCriteoIdColumns> latent_means_{};
  Parts means_;   // Means of the unscaled sums.
  Parts scales_;  // Factors of the sums.
  double bias_ = 0.0;
};

}  // namespace simurgh
