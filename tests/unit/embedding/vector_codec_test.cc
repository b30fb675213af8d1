#include "embedding/vector_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "embedding/simd/vector_rows.h"
#include "tests/unit/embedding/vector_rows_reference.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<uint32_t> kDims = {16, 1, 3, 40, 17, 8};

size_t Columns(const std::vector<uint32_t>& dims) {
  size_t columns = 0;
  for (const uint32_t dim : dims) columns += dim;
  return columns;
}

// Numbers of all sizes, here and there one that is zero, tiny, huge or none.
std::vector<float> Numbers(Random& random, size_t count) {
  const float special[] = {0.0F, -0.0F, 1e-40F, 3e38F, 65'504.0F, 70'000.0F, kInfinity, kNan};
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.Normal() * std::pow(10.0, 6.0 * random.Uniform() - 5.0));
    if (random.Below(100) == 0) value = special[random.Below(std::size(special))];
  }
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& one, const std::vector<T>& other) {
  return std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

// The same numbers, where one NaN is as good as another.
bool SameNumbers(const std::vector<float>& one, const std::vector<float>& other) {
  return std::ranges::equal(
      one, other, [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<float> numbers;  // Decoded again.
};

Encoded Through(const VectorCodec& code, const std::vector<float>& values,
                const std::optional<RoundingKey>& key = std::nullopt, float factor = 1.0F) {
  const size_t rows = values.size() / code.columns();
  Encoded encoded{.bytes = std::vector<std::byte>(rows * code.row_bytes()),
                  .numbers = std::vector<float>(values.size())};
  code.Encode({values.data(), rows, code.columns()}, factor, key, encoded.bytes);
  code.Decode(encoded.bytes, 1 / factor, {encoded.numbers.data(), rows, code.columns()});
  return encoded;
}

TEST_CASE("every target codes vectors to the bit like the reference") {
  const uint64_t seed = 20260801;
  CAPTURE(seed);
  Random random(seed);
  const size_t columns = Columns(kDims);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> values = Numbers(random, columns);
    const float factor = round % 2 == 0 ? 1.0F : 1024.0F;
    const ByteRounding rounding{.by_chance = round % 3 == 0, .noise = random()};
    std::vector<int8_t> bytes(columns);
    std::vector<float> scales(kDims.size());
    NarrowToBytesReference(kDims, factor, values.data(), rounding, bytes.data(), scales.data());
    std::vector<float> widened(columns);
    WidenBytesReference(kDims, factor, bytes.data(), scales.data(), widened.data());
    ForEachTarget([&] {
      std::vector<int8_t> own_bytes(columns, 99);
      std::vector<float> own_scales(kDims.size());
      NarrowToBytes(kDims, factor, values.data(), rounding, own_bytes.data(), own_scales.data());
      REQUIRE(own_bytes == bytes);
      REQUIRE(SameNumbers(own_scales, scales));
      std::vector<float> own(columns);
      WidenBytes(kDims, factor, bytes.data(), scales.data(), own.data());
      REQUIRE(SameNumbers(own, widened));
    });
    for (const Half format : {Half::kBf16, Half::kF16}) {
      std::vector<uint16_t> halves(columns);
      NarrowRowReference(format, factor, values, halves.data());
      WidenRowReference(format, factor, halves.data(), widened);
      ForEachTarget([&] {
        std::vector<uint16_t> own_halves(columns);
        NarrowRow(format, factor, values, own_halves.data());
        REQUIRE(SameBits(own_halves, halves));
        std::vector<float> own(columns);
        WidenRow(format, factor, halves.data(), own);
        REQUIRE(SameNumbers(own, widened));
      });
    }
  }
}

TEST_CASE(
    "every code of 16 bits is read alike by every target, the ones that stand for no number too") {
  for (const Half format : {Half::kBf16, Half::kF16}) {
    std::vector<uint16_t> halves(65'536);
    for (uint32_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    std::vector<float> expected(halves.size());
    WidenRowReference(format, 1.0F, halves.data(), expected);
    const uint32_t largest = format == Half::kBf16 ? kMaxBf16Bits : kMaxF16Bits;
    for (uint32_t i = 0; i < halves.size(); ++i) {
      REQUIRE(std::isfinite(expected[i]) == ((i & 0x7fff) <= largest));
    }
    ForEachTarget([&] {
      std::vector<float> own(halves.size());
      WidenRow(format, 1.0F, halves.data(), own);
      REQUIRE(SameNumbers(own, expected));
    });
  }
}

TEST_CASE("f32 travels as it is, and each precision takes the bytes that it says") {
  const VectorCodec f32(VectorPrecision::kF32, {3, 2});
  const std::vector<float> values = {1.5F, kNan, -3e38F, 0.0F, 1e-42F};
  const Encoded encoded = Through(f32, values);
  CHECK(std::memcmp(encoded.bytes.data(), values.data(), 20) == 0);
  CHECK(SameNumbers(encoded.numbers, values));
  CHECK(VectorCodec(VectorPrecision::kBf16, {3, 2}).row_bytes() == 10);
  CHECK(VectorCodec(VectorPrecision::kF16, {3, 2}).row_bytes() == 10);
  CHECK(VectorCodec(VectorPrecision::kInt8, {3, 2}).row_bytes() == 8 + 2 * 4);
  CHECK(VectorCodec(VectorPrecision::kInt8, {4}).row_bytes() == 4 + 4);
}

TEST_CASE("Decoded numbers are within the bound of their precision") {
  const uint64_t seed = 20260802;
  CAPTURE(seed);
  Random random(seed);
  const bool by_chance = GENERATE(false, true);
  const auto precision =
      GENERATE(VectorPrecision::kBf16, VectorPrecision::kF16, VectorPrecision::kInt8);
  CAPTURE(by_chance, static_cast<int>(precision));
  const VectorCodec code(precision, kDims);
  std::vector<float> values(code.columns() * 300);
  for (float& value : values) value = static_cast<float>(random.Normal());
  std::optional<RoundingKey> key;
  if (by_chance) key = {.seed = 1, .step = 2, .first_row = 3};
  const Encoded encoded = Through(code, values, key, /*factor=*/1024.0F);
  size_t i = 0;
  while (i < values.size()) {
    for (const uint32_t dim : kDims) {
      float largest = 0;
      for (size_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(values[i + d]));
      for (size_t d = 0; d < dim; ++d, ++i) {
        double bound = 1.0001 * largest / 127 * (by_chance ? 1.0 : 0.5);
        if (precision == VectorPrecision::kBf16) bound = std::abs(values[i]) / 256;
        if (precision == VectorPrecision::kF16) bound = std::abs(values[i]) / 2048 + 0x1p-35;
        REQUIRE(std::abs(encoded.numbers[i] - values[i]) <= bound);
      }
    }
  }
}

TEST_CASE("Rounding by chance is right in the mean, and the key decides it") {
  const VectorCodec code(VectorPrecision::kInt8, {16});
  const uint64_t seed = 20260803;
  CAPTURE(seed);
  Random random(seed);
  std::vector<float> values(16);
  for (float& value : values) value = static_cast<float>(random.Uniform() * 2 - 1);
  values[3] = 1.0F;  // The largest: an int8 is a 127th.
  const auto decoded = [&](const RoundingKey& key) { return Through(code, values, key).numbers; };

  constexpr int kDraws = 40'000;
  std::vector<double> sums(16);
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto numbers = decoded({.seed = seed, .step = static_cast<uint64_t>(draw)});
    for (size_t i = 0; i < 16; ++i) sums[i] += numbers[i];
  }
  // A draw is off by at most a half of 1/127 in the root of the mean square: five deviations.
  const double bound = 5 * 0.5 / 127 / std::sqrt(kDraws);
  for (size_t i = 0; i < 16; ++i) CHECK(sums[i] / kDraws == Approx(values[i]).margin(bound));

  const RoundingKey key{.seed = 1, .step = 2, .first_row = 3};
  CHECK(decoded(key) == decoded(key));
  CHECK(decoded(key) != decoded({.seed = 2, .step = 2, .first_row = 3}));
  CHECK(decoded(key) != decoded({.seed = 1, .step = 3, .first_row = 3}));
  CHECK(decoded(key) != decoded({.seed = 1, .step = 2, .first_row = 4}));
  // Numbers that are an int8 already stay.
  CHECK(decoded(key)[3] == Approx(1.0F));
  for (float& value : values) value = std::round(value * 127) / 127;
  CHECK(decoded(key) == Through(code, values).numbers);
}

TEST_CASE("A row's rounding does not depend on the rows that are encoded with it") {
  const VectorCodec code(VectorPrecision::kInt8, {5, 6});
  Random random(5);
  std::vector<float> values(11 * 8);
  for (float& value : values) value = static_cast<float>(random.Normal());
  const auto all = Through(code, values, RoundingKey{.seed = 7, .step = 1, .first_row = 10});
  const std::vector<float> last(values.end() - 11, values.end());
  const auto one = Through(code, last, RoundingKey{.seed = 7, .step = 1, .first_row = 17});
  CHECK(std::equal(one.bytes.begin(), one.bytes.end(),
                   all.bytes.end() - static_cast<ptrdiff_t>(code.row_bytes())));
}

TEST_CASE("What is not finite becomes NaN, in int8 with its whole vector and no other") {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    const std::vector<float> values = {1.0F, bad, 2.0F, 3.0F, 4.0F};
    for (const auto precision :
         {VectorPrecision::kBf16, VectorPrecision::kF16, VectorPrecision::kInt8}) {
      CAPTURE(bad, static_cast<int>(precision));
      const auto numbers = Through(VectorCodec(precision, {3, 2}), values).numbers;
      CHECK(std::isnan(numbers[1]));
      CHECK(std::isnan(numbers[0]) == (precision == VectorPrecision::kInt8));
      CHECK(numbers[3] == Approx(3.0F).epsilon(0.01));
      CHECK(numbers[4] == 4.0F);
    }
  }
}

TEST_CASE("Numbers beyond f16 become its largest, and the factor brings small ones within it") {
  const VectorCodec code(VectorPrecision::kF16, {2});
  CHECK(Through(code, {1e9F, -1e9F}).numbers == std::vector<float>{65'504.0F, -65'504.0F});
  CHECK(Through(code, {1e-9F, -1e-9F}).numbers == std::vector<float>{0.0F, -0.0F});
  const auto scaled = Through(code, {1e-9F, -1e-9F}, {}, /*factor=*/0x1p20F).numbers;
  CHECK(scaled[0] == Approx(1e-9F).epsilon(0.001));
  CHECK(scaled[1] == Approx(-1e-9F).epsilon(0.001));
}

TEST_CASE("Vectors of zeros, or of next to nothing, become zeros") {
  const auto numbers =
      Through(VectorCodec(VectorPrecision::kInt8, {2, 2}), {0.0F, -0.0F, 1e-38F, -1e-44F}).numbers;
  for (const float number : numbers) CHECK(number == 0.0F);
}

}  // namespace
}  // namespace simurgh
