#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <catch2/catch.hpp>

#include "embedding/vector_codec.h"
#include "tests/unit/nn/cuda/kernel_runs.h"
#include "tests/unit/nn/test_models.h"

// Encoding and decoding kernels compared with the CPU's codec, byte by byte, on odd shapes.
namespace simurgh::testing {
namespace {

constexpr VectorPrecision kPrecisions[] = {VectorPrecision::kBf16, VectorPrecision::kF16,
                                           VectorPrecision::kInt8};

// Numbers of all magnitudes, some zero, tiny, huge or NaN.
std::vector<float> Numbers(size_t count, Random& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.0F,      -0.0F,     1e-40F,    -1e-30F,    3e38F,
                           65'504.0F, 70'000.0F, kInfinity, -kInfinity, kNan};
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.Normal() * std::pow(10.0, 6.0 * random.Uniform() - 5.0));
    if (random.Below(200) == 0) value = special[random.Below(std::size(special))];
  }
  return values;
}

bool SameNumbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::memcmp(&x, &y, sizeof(x)) == 0 || (std::isnan(x) && std::isnan(y));
  });
}

struct Shape {
  size_t rows;
  std::vector<uint32_t> dims;
};

std::vector<Shape> Shapes() {
  return {{1, {1}}, {1, {16, 16}}, {5, {1, 2, 3, 1}}, {131, {16, 1, 3, 40, 17, 8}}, {300, {128}}};
}

TEST_CASE("kernels encode gradients byte by byte as the CPU") {
  Random random(21);
  for (const VectorPrecision precision : kPrecisions) {
    for (const Shape& shape : Shapes()) {
      for (const float factor : {1.0F, 1024.0F}) {
        const VectorCodec code(precision, shape.dims);
        CAPTURE(static_cast<int>(precision), shape.rows, code.columns(), factor);
        const std::vector<float> values = Numbers(shape.rows * code.columns(), random);
        const RoundingKey key{.seed = random(), .step = random.Below(1000), .first_row = random()};
        std::vector<std::byte> expected(shape.rows * code.row_bytes());
        code.Encode({values.data(), shape.rows, code.columns()}, factor, key, expected);
        CHECK(RunEncode(code, factor, key, values) == expected);
      }
    }
  }
}

TEST_CASE("kernels decode embeddings as the CPU") {
  Random random(22);
  for (const VectorPrecision precision : {VectorPrecision::kF32, VectorPrecision::kBf16,
                                          VectorPrecision::kF16, VectorPrecision::kInt8}) {
    for (const Shape& shape : Shapes()) {
      const VectorCodec code(precision, shape.dims);
      const size_t columns = code.columns();
      CAPTURE(static_cast<int>(precision), shape.rows, columns);
      const std::vector<float> values = Numbers(shape.rows * columns, random);
      std::vector<std::byte> encoded(shape.rows * code.row_bytes());
      code.Encode({values.data(), shape.rows, columns}, 1.0F, std::nullopt, encoded);
      std::vector<float> expected(values.size());
      code.Decode(encoded, 1.0F, {expected.data(), shape.rows, columns});
      // All of them, and a block of columns with what follows it.
      CHECK(SameNumbers(RunDecode(code, encoded, 0, columns, columns), expected));
      const size_t first = columns / 3;
      const size_t width = columns - first - columns / 4;
      const std::vector<float> block = RunDecode(code, encoded, first, width, width + 3);
      std::vector<float> wanted;
      for (size_t row = 0; row < shape.rows; ++row) {
        const float* const begin = expected.data() + row * columns + first;
        wanted.insert(wanted.end(), begin, begin + width);
        wanted.insert(wanted.end(), 3, 0.0F);
      }
      CHECK(SameNumbers(block, wanted));
    }
  }
}

TEST_CASE("kernels decode every 16-bit and int8 value as the CPU") {
  for (const VectorPrecision precision : kPrecisions) {
    CAPTURE(static_cast<int>(precision));
    const bool is_int8 = precision == VectorPrecision::kInt8;
    const VectorCodec code(precision, {is_int8 ? 256U : 65'536U});
    std::vector<std::byte> encoded(code.row_bytes());
    for (size_t i = 0; i < code.columns(); ++i) {
      const auto number = static_cast<uint16_t>(i);
      std::memcpy(encoded.data() + i * (is_int8 ? 1 : 2), &number, is_int8 ? 1 : 2);
    }
    const float scale = 0.37F;
    if (is_int8) std::memcpy(encoded.data() + code.scales_offset(), &scale, sizeof(scale));
    std::vector<float> expected(code.columns());
    code.Decode(encoded, 1.0F, {expected.data(), 1, code.columns()});
    CHECK(SameNumbers(RunDecode(code, encoded, 0, code.columns(), code.columns()), expected));
  }
}

}  // namespace
}  // namespace simurgh::testing
