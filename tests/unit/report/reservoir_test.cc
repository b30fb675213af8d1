#include "report/reservoir.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("A reservoir keeps all rows of a short stream, in order") {
  Reservoir reservoir(5, /*seed=*/1);
  for (size_t row = 0; row < 5; ++row) CHECK(reservoir.Next() == row);
}

TEST_CASE("Each row of a long stream is in a reservoir with the same probability") {
  constexpr size_t kRows = 100;
  constexpr size_t kCapacity = 20;
  constexpr int kTrials = 5'000;
  std::vector<int> counts(kRows);
  for (int trial = 0; trial < kTrials; ++trial) {
    Reservoir reservoir(kCapacity, static_cast<uint64_t>(trial));
    std::vector<size_t> kept(kCapacity);
    for (size_t row = 0; row < kRows; ++row) {
      if (const std::optional<size_t> place = reservoir.Next()) kept[*place] = row;
    }
    for (const size_t row : kept) ++counts[row];
  }
  // Binomial: 1,000 +- 28.3. Five deviations.
  CHECK(std::ranges::min(counts) > 1'000 - 142);
  CHECK(std::ranges::max(counts) < 1'000 + 142);
}

TEST_CASE("A reservoir without room keeps no row") {
  Reservoir reservoir(0, /*seed=*/1);
  CHECK(reservoir.Next() == std::nullopt);
}

}  // namespace
}  // namespace simurgh
