#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "collective/collective.h"

namespace simurgh {
namespace {

std::vector<float> RoundTrip(std::span<const float> values, ReducePrecision precision,
                             std::span<float> residual = {}) {
  std::vector<std::byte> encoded(EncodedSize(values.size(), precision));
  EncodeValues(values, precision, residual, encoded);
  std::vector<float> decoded(values.size());
  DecodeValues(encoded, precision, decoded);
  return decoded;
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  const float tie_down = 1.0F + 0x1p-8F;
  const float tie_up = 1.0F + 3 * 0x1p-8F;
  const std::vector<float> values{1.0F,      tie_down, tie_up,
                                  -tie_down, 0.0F,     std::numeric_limits<float>::infinity()};
  const std::vector<float> expected{1.0F,  1.0F, 1.0F + 4 * 0x1p-8F,
                                    -1.0F, 0.0F, std::numeric_limits<float>::infinity()};
  CHECK(RoundTrip(values, ReducePrecision::kBf16) == expected);
  const std::vector<float> nan{std::nanf("")};
  CHECK(std::isnan(RoundTrip(nan, ReducePrecision::kBf16)[0]));
}

TEST_CASE("int8 keeps minimum and maximum, with errors of half a step at most") {
  std::vector<float> values(513);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3;
  values.back() = 1e6F;  // In a separate chunk, where it does not affect other values.
  const std::vector<float> decoded = RoundTrip(values, ReducePrecision::kInt8);
  for (size_t i = 0; i < 512; ++i) CHECK(std::abs(decoded[i] - values[i]) <= 3.0F / 255 + 1e-6F);
  CHECK(decoded.back() == 1e6F);
  CHECK(EncodedSize(513, ReducePrecision::kInt8) == 513 + 16);
}

TEST_CASE("int8 keeps equal values, and encodes a range that is not finite as NaN") {
  const std::vector<float> equal(100, 0.3F);
  CHECK(RoundTrip(equal, ReducePrecision::kInt8) == equal);
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> ends{kMax, -kMax};
  for (const float value : RoundTrip(ends, ReducePrecision::kInt8)) CHECK(std::isnan(value));
}

TEST_CASE("A residual is the rounding error, and is added to the next values") {
  for (const auto precision : {ReducePrecision::kBf16, ReducePrecision::kInt8}) {
    const std::vector<float> values{0.1F, 0.7F, -0.33F};
    std::vector<float> residual(3);
    const std::vector<float> first = RoundTrip(values, precision, residual);
    for (size_t i = 0; i < 3; ++i) CHECK(first[i] + residual[i] == Approx(values[i]).epsilon(1e-6));
    const std::vector<float> carried = residual;
    const std::vector<float> second = RoundTrip(values, precision, residual);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(second[i] + residual[i] == Approx(values[i] + carried[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("AddValues adds the decoded values") {
  const auto precision =
      GENERATE(ReducePrecision::kF32, ReducePrecision::kBf16, ReducePrecision::kInt8);
  std::vector<float> values(1'300);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  std::vector<std::byte> encoded(EncodedSize(values.size(), precision));
  EncodeValues(values, precision, {}, encoded);
  std::vector<float> sums(values.size(), 2.0F);
  AddValues(encoded, precision, sums);
  const std::vector<float> decoded = RoundTrip(values, precision);
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(sums[i] == 2.0F + decoded[i]);
}

}  // namespace
}  // namespace simurgh
