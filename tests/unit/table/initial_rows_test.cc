// Rows of another training in a new table.

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "table/arena.h"
#include "table/table.h"

namespace simurgh {
namespace {

using Kind = SparseOptimizerConfig::Kind;

constexpr std::array<uint64_t, 3> kIds = {7, uint64_t{1} << 63, 9};
const std::vector<float> kWeights = {0.5F, -0.25F, 0.0F, 0.125F, 3.0F, -2.0F};

struct NewTable {
  explicit NewTable(const TableConfig& config)
      : arena(Arena::Create(Table::ReservationFor(config)).value()), table(config, 3, arena) {}

  std::vector<float> Weights() {
    std::vector<float> weights(kWeights.size());
    REQUIRE(table.Evaluate(kIds, {weights.data(), kIds.size(), 2}) == kIds.size());
    return weights;
  }

  Arena arena;
  Table table;
};

void CheckClose(const std::vector<float>& found, const std::vector<float>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == Approx(wanted[i]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("Every optimizer goes on from initial weights") {
  TableConfig config{.name = "clicks", .dim = 2, .capacity_rows = 10};
  SparseOptimizerConfig& optimizer = config.optimizer;
  optimizer = {
      .kind = GENERATE(Kind::kSgd, Kind::kAdagrad, Kind::kAdam, Kind::kFtrl, Kind::kGroupFtrl),
      .learning_rate = 0.1F,
      .initial_accumulator = 0.25F};
  if (optimizer.kind == Kind::kFtrl || optimizer.kind == Kind::kGroupFtrl) {
    optimizer.l1 = 0.3F;
    optimizer.l2 = 0.2F;
    optimizer.group_l1 = optimizer.kind == Kind::kGroupFtrl ? 0.4F : 0.0F;
  }
  NewTable rows(config);
  REQUIRE(rows.table.PutInitialRows(kIds, kWeights).ok());
  CHECK(rows.Weights() == kWeights);
  rows.table.ForEachRow([&](const RowContents& row) {
    CHECK(row.recency == 0);
    if (optimizer.kind == Kind::kAdagrad) CHECK(row.state[0] == 0.25F);
  });
  // A gradient of zeros changes nothing, also where weights follow from the state.
  const std::vector<float> zeros(kWeights.size());
  CHECK(rows.table.Push(kIds, {zeros.data(), kIds.size(), 2}, 0.1F, 1).updated == kIds.size());
  CheckClose(rows.Weights(), kWeights);
}

TEST_CASE("Initial weights are rounded and clamped as the table's") {
  TableConfig config{.name = "clicks",
                     .dim = 2,
                     .capacity_rows = 10,
                     .weight_bound = 2.5F,
                     .precision = GENERATE(RowPrecision::kBf16, RowPrecision::kF16)};
  NewTable rows(config);
  REQUIRE(rows.table.PutInitialRows(kIds, kWeights).ok());
  std::vector<float> wanted = kWeights;
  wanted[4] = 2.5F;
  CHECK(rows.Weights() == wanted);
}

TEST_CASE("Initial rows are refused if they repeat an id or are not finite") {
  const TableConfig config{.name = "clicks", .dim = 2, .capacity_rows = 10};
  NewTable rows(config);
  const std::array<uint64_t, 2> twice = {4, 4};
  CHECK(rows.table.PutInitialRows(twice, std::vector<float>(4)) ==
        absl::DataLossError("table 'clicks': id 4 has two rows"));
  const std::vector<float> bad = {1.0F, std::numeric_limits<float>::quiet_NaN()};
  CHECK(rows.table.PutInitialRows(std::array<uint64_t, 1>{5}, bad) ==
        absl::InvalidArgumentError(
            "table 'clicks': the row of id 5 has a number that is not finite"));
}

}  // namespace
}  // namespace simurgh
