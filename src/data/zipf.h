#pragma once

#include <cstdint>

#include "simurgh/base/random.h"

namespace simurgh {

// Draws ranks 0 to count - 1, rank r with probability proportional to (r + 1)^-exponent.
//
// Cost: about 1.1 uniform draws, a logarithm and an exponential per rank, for any `count`. Threads:
// any. Source: Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone
// discrete distributions", ACM TOMACS 6(3), 1996.
class ZipfSampler {
 public:
  // Requires count >= 1 and exponent > 0.
  ZipfSampler(uint64_t count, double exponent);

  uint64_t Draw(Random& random) const;

 private:
  double Density(double x) const;   // x^-exponent.
  double Integral(double x) const;  // The integral of the density from 1 to x.
  double InverseIntegral(double integral) const;

  uint64_t count_;
  double exponent_;
  double inverse_;        // 1 / (1 - exponent); unused if infinite.
  double integral_low_;   // Start of the hat of rank 0.
  double integral_high_;  // End of the hat of the last rank.
  double squeeze_;        // A rank at most this far above its draw needs no test.
};

}  // namespace simurgh
