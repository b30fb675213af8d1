#include "simurgh/base/random.h"

#include <cmath>
#include <numbers>

namespace simurgh {

double Random::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

}  // namespace simurgh
