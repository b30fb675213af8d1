#include "table/partition.h"

#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/table/whole_requests.h"

namespace simurgh {
namespace {

TableConfig Config(std::string name, uint32_t dim, uint64_t capacity) {
  TableConfig config;
  config.name = std::move(name);
  config.dim = dim;
  config.capacity_rows = capacity;
  return config;
}

std::unique_ptr<Partition> TwoTables() {
  return Partition::Create({Config("user", 4, 100), Config("item", 8, 100)}, 7).value();
}

std::vector<float> PullTrain(Partition& partition, uint64_t step, uint32_t table,
                             const std::vector<uint64_t>& ids) {
  const uint32_t dim = partition.table(table).config().dim;
  std::vector<float> rows(ids.size() * dim);
  const PullGroup group{table, ids, {rows.data(), ids.size(), dim}};
  REQUIRE(testing::PullWhole(partition, LookupMode::kTrain, {1, 0, step}, 0, {&group, 1}).ok());
  return rows;
}

TEST_CASE("a pull for training creates rows, one for evaluation does not") {
  auto partition = TwoTables();
  const std::vector<uint64_t> ids = {5, 6};
  std::vector<float> rows(8, -1.0F);
  const PullGroup group{0, ids, {rows.data(), 2, 4}};
  auto report = testing::PullWhole(*partition, LookupMode::kEvaluate, {1, 0, 0}, 0, {&group, 1});
  REQUIRE(report.ok());
  CHECK(report->unseen == 2);
  CHECK(rows == std::vector<float>(8, 0.0F));
  CHECK(partition->table(0).stats().rows == 0);

  report = testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 0}, 0, {&group, 1});
  REQUIRE(report.ok());
  CHECK(report->created == 2);
  CHECK(report->found == 0);
  const std::vector<float> created = rows;
  for (float weight : created) CHECK((weight >= -0.01F && weight < 0.01F && weight != 0));

  report = testing::PullWhole(*partition, LookupMode::kEvaluate, {1, 0, 0}, 0, {&group, 1});
  CHECK(report->found == 2);
  CHECK(rows == created);
  CHECK(partition->table(1).stats().rows == 0);
}

TEST_CASE("rows may be scattered into a wider matrix") {
  auto partition = TwoTables();
  const std::vector<float> packed = PullTrain(*partition, 0, 0, {1, 2, 3});
  std::vector<float> wide(3 * 10, 9.0F);
  const std::vector<uint64_t> ids = {1, 2, 3};
  const PullGroup group{0, ids, MatrixView<float>(wide.data(), 3, 10).Columns(5, 4)};
  REQUIRE(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 1}, 0, {&group, 1}).ok());
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 10; ++column) {
      const bool inside = column >= 5 && column < 9;
      CHECK(wide[row * 10 + column] == (inside ? packed[row * 4 + column - 5] : 9.0F));
    }
  }
}

TEST_CASE("a repeated push is applied once") {
  auto partition = TwoTables();
  const std::vector<uint64_t> ids = {5};
  PullTrain(*partition, 0, 0, ids);
  std::vector<float> gradient(4, 1.0F);
  const PushGroup group{0, 0.1F, ids, MatrixView<float>(gradient.data(), 1, 4)};
  REQUIRE(testing::PushWhole(*partition, {1, 0, 0}, {&group, 1})->updated == 1);
  const uint64_t digest = partition->table(0).ContentDigest();
  CHECK(testing::PushWhole(*partition, {1, 0, 0}, {&group, 1})->repeated);
  CHECK(partition->table(0).ContentDigest() == digest);
  // Another step, rank or run is another push.
  CHECK_FALSE(testing::PushWhole(*partition, {1, 0, 1}, {&group, 1})->repeated);
  CHECK_FALSE(testing::PushWhole(*partition, {1, 1, 0}, {&group, 1})->repeated);
  CHECK_FALSE(testing::PushWhole(*partition, {2, 0, 0}, {&group, 1})->repeated);
  CHECK(testing::PushWhole(*partition, {1, 0, 1}, {&group, 1})->repeated);
  CHECK(partition->table(0).ContentDigest() != digest);
}

TEST_CASE("a partition without a record of acknowledged steps has lost its rows") {
  auto partition = TwoTables();
  for (uint64_t step = 0; step < 3; ++step)
    REQUIRE(testing::PushWhole(*partition, {1, 0, step}, {}).ok());
  CHECK(testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 3}, 3, {}).ok());
  const auto ahead = testing::PullWhole(*partition, LookupMode::kTrain, {1, 0, 4}, 4, {});
  CHECK(ahead.status().code() == absl::StatusCode::kDataLoss);
  CHECK(ahead.status().message().find("3..3") != absl::string_view::npos);

  auto restarted = TwoTables();
  CHECK(testing::PullWhole(*restarted, LookupMode::kTrain, {1, 0, 3}, 3, {}).status().code() ==
        absl::StatusCode::kDataLoss);
  CHECK(testing::PullWhole(*restarted, LookupMode::kEvaluate, {1, 0, 3}, 3, {}).status().code() ==
        absl::StatusCode::kDataLoss);
  CHECK(testing::PushWhole(*restarted, {1, 0, 2000}, {}).status().code() ==
        absl::StatusCode::kDataLoss);
  CHECK(testing::PullWhole(*restarted, LookupMode::kTrain, {2, 0, 0}, 0, {}).ok());
}

TEST_CASE("a restarted trainer's rows are not older than its predecessor's") {
  auto partition = Partition::Create({Config("t", 4, 2)}, 7).value();
  std::vector<float> rows(4);
  const auto pull = [&](uint64_t run, uint64_t step, uint64_t id) {
    const PullGroup group{0, {&id, 1}, {rows.data(), 1, 4}};
    REQUIRE(
        testing::PullWhole(*partition, LookupMode::kTrain, {run, 0, step}, 0, {&group, 1}).ok());
  };
  pull(1, 1000, 10);
  pull(1, 1001, 11);
  pull(2, 0, 10);
  pull(2, 1, 12);  // Evicts 11: 10 was used by the new run.
  std::vector<uint64_t> ids;
  partition->table(0).ForEachRow([&](const RowContents& row) { ids.push_back(row.id); });
  std::sort(ids.begin(), ids.end());
  CHECK(ids == std::vector<uint64_t>{10, 12});
}

TEST_CASE("the sum of partitions' digests does not depend on their number") {
  auto whole = Partition::Create({Config("t", 4, 100)}, 7).value();
  auto left = Partition::Create({Config("t", 4, 60)}, 7).value();
  auto right = Partition::Create({Config("t", 4, 60)}, 7).value();
  for (uint64_t id = 0; id < 50; ++id) {
    PullTrain(*whole, 0, 0, {id});
    PullTrain(id % 3 == 0 ? *left : *right, id, 0, {id});
  }
  const uint64_t digest = whole->table(0).ContentDigest();
  CHECK(digest == left->table(0).ContentDigest() + right->table(0).ContentDigest());
  const uint64_t id = 8;
  std::vector<float> gradient(4, 0.5F);
  const PushGroup group{0, 0.1F, {&id, 1}, MatrixView<float>(gradient.data(), 1, 4)};
  REQUIRE(testing::PushWhole(*whole, {1, 0, 0}, {&group, 1}).ok());
  CHECK(whole->table(0).ContentDigest() != digest);
  REQUIRE(testing::PushWhole(*right, {1, 0, 0}, {&group, 1}).ok());
  CHECK(whole->table(0).ContentDigest() ==
        left->table(0).ContentDigest() + right->table(0).ContentDigest());
}

TEST_CASE("capacities out of range are rejected") {
  CHECK(Partition::Create({Config("t", 8, 0)}, 1).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(Partition::Create({Config("t", 8, uint64_t{1} << 32)}, 1).status().code() ==
        absl::StatusCode::kInvalidArgument);
  // 128 tables of 35 TB each do not fit in 128 TiB of address space.
  std::vector<TableConfig> huge(128, Config("t", 1024, 0xfffffff0));
  CHECK(Partition::Create(huge, 1).status().code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace simurgh
