#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/random.h"

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

// Below this, the first terms of a series are more exact than the functions.
inline constexpr double kZipfTiny = 1e-8;

// Internally, ranks count from 1, as in the source.
inline ZipfSampler::ZipfSampler(uint64_t count, double exponent)
    : count_(count), exponent_(exponent), inverse_(1.0 / (1.0 - exponent)) {
  SIMURGH_CHECK(count >= 1 && exponent > 0.0) << "count " << count << ", exponent " << exponent;
  integral_low_ = Integral(1.5) - 1.0;
  integral_high_ = Integral(static_cast<double>(count) + 0.5);
  squeeze_ = 2.0 - InverseIntegral(Integral(2.5) - Density(2.0));
}

inline double ZipfSampler::Density(double x) const { return std::exp(-exponent_ * std::log(x)); }

// (x^(1 - exponent) - 1) / (1 - exponent), whose limit at exponent 1 is log(x).
inline double ZipfSampler::Integral(double x) const {
  const double log_x = std::log(x);
  const double power = (1.0 - exponent_) * log_x;
  return std::abs(power) > kZipfTiny ? std::expm1(power) * inverse_ : log_x * (1.0 + power / 2.0);
}

inline double ZipfSampler::InverseIntegral(double integral) const {
  // Rounding may move the argument below -1, the limit of the logarithm.
  const double argument = std::max(integral * (1.0 - exponent_), -1.0);
  return std::exp(std::abs(argument) > kZipfTiny ? std::log1p(argument) * inverse_
                                                 : integral * (1.0 - argument / 2.0));
}

inline uint64_t ZipfSampler::Draw(Random& random) const {
  for (;;) {
    const double integral = integral_high_ + random.Uniform() * (integral_low_ - integral_high_);
    const double x = InverseIntegral(integral);
    const double above = x + 0.5;  // Not negative, so truncation rounds x to nearest.
    const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(above), 1, count_);
    const auto real_rank = static_cast<double>(rank);
    if (real_rank - x <= squeeze_ || integral >= Integral(real_rank + 0.5) - Density(real_rank)) {
      return rank - 1;
    }
  }
}

}  // namespace simurgh
