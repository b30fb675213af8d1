#include "nn/cuda/float16.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh::testing {
namespace {

using cuda::Float16;

float Wide(uint32_t bits) { return cuda::ToFloat(Float16{static_cast<uint16_t>(bits)}); }

Float16 Narrow(float value) {
  Float16 result{};
  cuda::Assign(result, value);
  return result;
}

// By the definition of IEEE 754.
double DefinitionOf(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31U);
  const double mantissa = bits & 1023U;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000U) != 0 ? -size : size;
}

TEST_CASE("every f16 has its bits' value and survives a conversion to f32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7fffU) > 0x7c00U) {
      if (!std::isnan(Wide(bits)) || !std::isnan(Wide(Narrow(Wide(bits)).bits))) FAIL(bits);
      continue;
    }
    const bool is_infinite = (bits & 0x7fffU) == 0x7c00U;
    const bool right = is_infinite ? std::isinf(Wide(bits)) : Wide(bits) == DefinitionOf(bits);
    if (!right || Narrow(Wide(bits)).bits != bits) FAIL(bits);
  }
  CHECK(Wide(0xfc00U) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("f16 is the nearest of its values, ties to even, and infinite beyond them") {
  // Halfway between two neighbours, and slightly to both sides.
  for (uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const float middle = (Wide(bits) + Wide(bits + 1)) / 2;
    const uint32_t even = bits + (bits & 1U);
    if (Narrow(middle).bits != even) FAIL(bits);
    if (Narrow(-middle).bits != (even | 0x8000U)) FAIL(bits);
    if (Narrow(std::nextafter(middle, 0.0F)).bits != bits) FAIL(bits);
    if (Narrow(std::nextafter(middle, 1e9F)).bits != bits + 1) FAIL(bits);
  }
  CHECK(Narrow(65'519.99F).bits == 0x7bffU);
  CHECK(Narrow(65'520.0F).bits == 0x7c00U);
  CHECK(Narrow(-std::numeric_limits<float>::max()).bits == 0xfc00U);
  CHECK(Narrow(std::numeric_limits<float>::denorm_min()).bits == 0);
}

}  // namespace
}  // namespace simurgh::testing
