#include "nn/cpu/round_to_bf16.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Widened(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

// By definition: 8 bits of mantissa, fewer for subnormals; nearbyint rounds ties to even.
uint16_t Nearest(float value) {
  if (!std::isfinite(value)) return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  constexpr int kLeast = std::numeric_limits<float>::min_exponent - 8;  // Of the step's exponent.
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 8, kLeast));
  const auto nearest = static_cast<float>(std::nearbyint(double{value} / step) * step);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(nearest) >> 16);
}

std::vector<uint16_t> Rounded(std::span<const float> values) {
  std::vector<uint16_t> rounded(values.size());
  cpu::RoundToBf16(values, rounded.data());
  return rounded;
}

TEST_CASE("numbers are rounded to the nearest bf16, ties to even, in vectors of every length") {
  Random random(1);
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            kInfinity,
                            -kInfinity,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest(),
                            std::numeric_limits<float>::denorm_min()};
  for (const uint32_t upper : {0x0000U, 0x0001U, 0x007fU, 0x0080U, 0x3f80U, 0x3f81U, 0x7f7fU}) {
    for (const uint32_t lower : {0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
      values.push_back(-values.back());
    }
  }
  while (values.size() < 2'000) {
    const auto bits = static_cast<uint32_t>(random());
    if (!std::isnan(std::bit_cast<float>(bits))) values.push_back(std::bit_cast<float>(bits));
  }
  for (size_t length = 0; length < 70; ++length) {
    const std::span<const float> some = std::span(values).subspan(length * 20, length);
    const std::vector<uint16_t> rounded = Rounded(some);
    for (size_t i = 0; i < length; ++i) {
      CAPTURE(length, i, some[i]);
      REQUIRE(rounded[i] == Nearest(some[i]));
    }
  }
  const std::vector<uint16_t> rounded = Rounded(values);
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i, values[i]);
    REQUIRE(rounded[i] == Nearest(values[i]));
  }
}

TEST_CASE("NaN stays NaN in bf16, also where its upper half alone would be infinity") {
  std::vector<float> values;
  for (const uint32_t bits :
       {0x7f800001U, 0x7f80ffffU, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    values.insert(values.end(), 5, std::bit_cast<float>(bits));
  }
  for (const uint16_t half : Rounded(values)) CHECK(std::isnan(Widened(half)));
}

}  // namespace
}  // namespace simurgh::testing
