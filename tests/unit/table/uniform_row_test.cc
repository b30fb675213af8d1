#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/simd/pull_rows.h"
#include "tests/unit/table/row_references.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

TEST_CASE("uniform rows are those of the reference at every length and alignment") {
  constexpr size_t kGuard = 20;
  ForEachTarget([&] {
    Random random(7);
    for (size_t length = 0; length <= 131; ++length) {
      for (size_t shift = 0; shift < 4; ++shift) {
        const uint64_t seed = random();
        const UniformRange range = {static_cast<float>(random.Uniform()) - 0.5F, 1.5F, 0.9F};
        std::vector<float> expected(shift + length + kGuard, 7.0F);
        std::vector<float> actual = expected;
        FillUniformReference(seed, range, {expected.data() + shift, length});
        const UniformRow row = {seed, actual.data() + shift};
        FillUniform(range, static_cast<uint32_t>(length), {&row, 1});
        INFO("length " << length << ", shift " << shift);
        REQUIRE(std::memcmp(expected.data(), actual.data(), actual.size() * sizeof(float)) == 0);
      }
    }
  });
}

TEST_CASE("rows of one call have separate seeds and destinations") {
  constexpr uint32_t kDim = 11;
  const UniformRange range = {-1.0F, 2.0F, 1.0F};
  ForEachTarget([&] {
    Random random(5);
    std::vector<float> expected(40 * kDim);
    std::vector<float> actual(expected.size());
    std::vector<UniformRow> rows;
    for (size_t i = 0; i < 40; ++i) {
      const size_t at = (i * 7 + 3) % 40 * kDim;
      rows.push_back({random(), actual.data() + at});
      FillUniformReference(rows.back().seed, range, {expected.data() + at, kDim});
    }
    FillUniform(range, kDim, rows);
    REQUIRE(actual == expected);
  });
}

TEST_CASE("the reference draws what Random draws") {
  std::vector<float> row(3);
  FillUniformReference(11, {0.0F, 1.0F, 1.0F}, row);
  Random random(11);
  const uint64_t first = random();
  CHECK(row[0] == static_cast<float>(first >> 40) * 0x1.0p-24F);
  CHECK(row[1] == static_cast<float>(first >> 16 & 0xffffff) * 0x1.0p-24F);
  CHECK(row[2] == static_cast<float>(random() >> 40) * 0x1.0p-24F);
}

}  // namespace
}  // namespace simurgh
