
#include "table/simd/row_update.h"

namespace simurgh {
namespace {

// By squaring, because std::pow is not bit-identical across machines. Without branches on the bits
// of the exponent, because they are unpredictable.
double Power(double base, uint32_t exponent) {
  double power = 1;
  while (exponent != 0) {
    const double factors[] = {1, base};
    power *= factors[exponent & 1];
    base *= base;
    exponent >>= 1;
  }
  return power;
}

}  // namespace

AdamScales AdamScalesOf(const RowUpdateParameters& parameters, float updates) {
  const auto count = static_cast<uint32_t>(updates);
  const double first = 1 - Power(parameters.beta1, count);
  const double second = 1 - Power(parameters.beta2, count);
  return {static_cast<float>(parameters.learning_rate / first), static_cast<float>(1 / second)};
}

}  // namespace simurgh
