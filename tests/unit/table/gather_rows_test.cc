#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "table/simd/pull_rows.h"
#include "tests/unit/table/targets.h"

namespace simurgh {
namespace {

constexpr uint32_t kRows = 50;
constexpr uint32_t kStamp = 1000;
constexpr uint32_t kSuspectBelow = 100;

// Separately stored rows of random weights; row r has id 3r.
struct RandomRows {
  RandomRows(uint32_t dim, RowPrecision precision, Random& random)
      : layout(RowFormat{.dim = dim, .shape = {1, 0}, .weights = precision}),
        memory(kRows * layout.stride_bytes),
        rows(memory.data(), layout) {
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    for (uint32_t row = 0; row < kRows; ++row) {
      rows.header(row).id = 3 * uint64_t{row};
      rows.header(row).recency = static_cast<uint32_t>(random.Below(kStamp));
      rows.header(row).use_count = static_cast<uint16_t>(random.Below(2) == 0 ? 65'534 : 7);
    }
  }

  RowLayout layout;
  std::vector<std::byte> memory;
  Rows rows;
};

// The specification, position by position.
size_t GatherReference(const RowGather& gather, const std::vector<uint64_t>& ids,
                       const std::vector<uint32_t>& candidates, EncodedRows out, uint16_t* rest) {
  size_t left = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (candidates[i] == kNoRow || gather.rows.header(candidates[i]).id != ids[i] ||
        gather.rows.header(candidates[i]).recency < gather.suspect_below ||
        gather.rows.header(candidates[i]).recency >= gather.open_from) {
      rest[left++] = static_cast<uint16_t>(i);
      continue;
    }
    RowHeader& header = gather.rows.header(candidates[i]);
    if (i % kAgeEvery == 0) ++gather.ages[std::bit_width(gather.stamp - header.recency)];
    header.recency = gather.stamp;
    if (header.use_count < 65'535) ++header.use_count;
    std::memcpy(out.row(i), gather.rows.values(candidates[i]), out.row_bytes());
  }
  return left;
}

TEST_CASE("gathering rows equals copying them one by one, on every target and at every length") {
  const RowPrecision precision = GENERATE(RowPrecision::kF32, RowPrecision::kBf16);
  const uint32_t open_from =
      GENERATE(uint32_t{kFreeRecency}, 700U, uint32_t{kSuspectBelow}, 50U, 0U);
  CAPTURE(open_from);
  constexpr size_t kWider = 5;  // Columns of the matrix that are not the rows'.
  Random random(11);
  ForEachTarget([&] {
    for (uint32_t dim = 1; dim <= 70; ++dim) {
      RandomRows actual_rows(dim, precision, random);
      RandomRows expected_rows = actual_rows;
      expected_rows.rows = Rows(expected_rows.memory.data(), expected_rows.layout);
      // Candidates repeat, belong to another id, or are kNoRow.
      std::vector<uint64_t> ids(random.Below(200));
      std::vector<uint32_t> candidates(ids.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        candidates[i] = random.Below(8) == 0 ? kNoRow : static_cast<uint32_t>(random.Below(kRows));
        ids[i] = 3 * uint64_t{candidates[i]} + (random.Below(8) == 0 ? 1 : 0);
      }
      const size_t columns = dim + kWider;
      std::vector<float> actual(ids.size() * columns, 7.0F);
      std::vector<float> expected = actual;
      // In 16 bits the wider matrix is not to be had.
      const auto out = [&](std::vector<float>& to) {
        if (precision != RowPrecision::kF32) {
          return EncodedRows(reinterpret_cast<std::byte*>(to.data()), precision, ids.size(), dim);
        }
        return EncodedRows(MatrixView<float>(to.data(), ids.size(), columns).Columns(2, dim));
      };
      std::array<uint64_t, 33> actual_ages{};
      std::array<uint64_t, 33> expected_ages{};
      std::vector<uint16_t> actual_rest(ids.size());
      std::vector<uint16_t> expected_rest(ids.size());
      const size_t left =
          GatherRows({actual_rows.rows, kStamp, kSuspectBelow, open_from, actual_ages.data()}, ids,
                     candidates.data(), out(actual), actual_rest.data());
      const size_t expected_left = GatherReference(
          {expected_rows.rows, kStamp, kSuspectBelow, open_from, expected_ages.data()}, ids,
          candidates, out(expected), expected_rest.data());
      INFO("dim " << dim << ", " << ids.size() << " ids");
      REQUIRE(left == expected_left);
      REQUIRE(actual_rest == expected_rest);
      // Bytes: random weights can be no numbers.
      REQUIRE((actual.empty() ||
               std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)) == 0));
      REQUIRE(actual_rows.memory == expected_rows.memory);
      REQUIRE(actual_ages == expected_ages);
    }
  });
}

}  // namespace
}  // namespace simurgh
