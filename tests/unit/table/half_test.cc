#include "tensor/half.h"

#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

// By the definition of IEEE 754's binary16.
double F16ByDefinition(uint32_t half) {
  const int exponent = static_cast<int>(half >> 10 & 31);
  const double fraction = (half & 1023) / 1024.0;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (half & 0x8000) != 0 ? -size : size;
}

struct Format {
  const char* name;
  float (*from)(uint16_t);
  uint16_t (*to)(float, uint32_t);
  uint32_t largest;
};
const Format kFormats[] = {{"bf16", FromBf16, ToBf16, kMaxBf16Bits},
                           {"f16", FromF16, ToF16, kMaxF16Bits}};

TEST_CASE("f16 decodes by its definition") {
  for (uint32_t half = 0; half < 65'536; ++half) {
    const float value = FromF16(static_cast<uint16_t>(half));
    if ((half & 0x7fff) > kMaxF16Bits) {
      REQUIRE(std::isinf(value) == ((half & 0x7fff) == 0x7c00));
      REQUIRE(std::isnan(value) != std::isinf(value));
      REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
      continue;
    }
    REQUIRE(value == F16ByDefinition(half));
  }
}

TEST_CASE("rounding keeps numbers of the format") {
  for (const Format& format : kFormats) {
    for (uint32_t half = 0; half < 65'536; ++half) {
      if ((half & 0x7fff) > format.largest) continue;
      for (const uint32_t noise : {0U, 0x8000U, 0xffffU}) {
        const float value = format.from(static_cast<uint16_t>(half));
        if (format.to(value, noise) != half) FAIL(format.name << " " << half << " " << noise);
      }
    }
  }
}

TEST_CASE("rounding gives one of two neighbours, and the number itself on average") {
  Random random(3);
  for (const Format& format : kFormats) {
    for (int i = 0; i < 40; ++i) {
      // Magnitudes between 2^-26 and 4.
      const auto value =
          static_cast<float>((random.Uniform() - 0.5) * std::pow(2.0, 3 - 28 * random.Uniform()));
      INFO(format.name << " " << value);
      const uint16_t below = format.to(value, 0);
      double sum = 0;
      for (uint32_t noise = 0; noise < 65'536; ++noise) {
        const uint16_t rounded = format.to(value, noise);
        if (rounded != below && rounded != below + 1) FAIL("noise " << noise);
        sum += format.from(rounded);
      }
      const double step =
          std::abs(format.from(static_cast<uint16_t>(below + 1)) - double{format.from(below)});
      CHECK(std::abs(sum / 65'536 - value) <= step / 4096);
      CHECK(std::abs(format.from(format.to(value, 0x8000)) - double{value}) <= step / 2);
    }
  }
}

TEST_CASE("values beyond the range saturate") {
  for (const Format& format : kFormats) {
    const float largest = format.from(static_cast<uint16_t>(format.largest));
    for (const float value :
         {std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()}) {
      CHECK(format.from(format.to(value, 0xffff)) == largest);
      CHECK(format.from(format.to(-value, 0xffff)) == -largest);
    }
  }
}

TEST_CASE("rounding noise is uniform and independent between neighbours") {
  constexpr uint32_t kElements = 1 << 16;
  std::vector<uint32_t> ones(32);
  std::vector<uint32_t> pairs(32);
  std::vector<uint32_t> seeds(32);
  for (uint32_t i = 0; i < kElements; ++i) {
    const uint32_t noise = ElementNoise(Mix64(i / 64), i % 64);
    const uint32_t next = noise ^ ElementNoise(Mix64(i / 64), i % 64 + 1);
    const uint32_t other = noise ^ ElementNoise(Mix64(i / 64 + 1), i % 64);
    for (uint32_t bit = 0; bit < 32; ++bit) {
      ones[bit] += noise >> bit & 1;
      pairs[bit] += next >> bit & 1;
      seeds[bit] += other >> bit & 1;
    }
  }
  // Half of them, give or take six deviations.
  for (uint32_t bit = 0; bit < 32; ++bit) {
    CHECK(ones[bit] == Approx(kElements / 2).margin(768));
    CHECK(pairs[bit] == Approx(kElements / 2).margin(768));
    CHECK(seeds[bit] == Approx(kElements / 2).margin(768));
  }
}

}  // namespace
}  // namespace simurgh
