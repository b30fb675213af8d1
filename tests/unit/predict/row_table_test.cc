#include "predict/row_table.h"

#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

constexpr uint32_t kDim = 4;
const TableConfig kTable{.name = "t", .dim = kDim};

// nullopt: the id went.
using Changes = std::map<uint64_t, std::optional<float>>;

std::shared_ptr<RowTable> TableOf(const Changes& changes) {
  std::vector<uint64_t> ids;
  std::vector<uint64_t> removed;
  for (const auto& [id, value] : changes) (value ? ids : removed).push_back(id);
  auto table = RowTable::Create(kTable, ids.size(), removed.size()).value();
  for (size_t i = 0; i < ids.size(); ++i) {
    table->ids()[i] = ids[i];
    const std::vector<float> row(kDim, *changes.at(ids[i]));
    std::memcpy(table->weights().data() + i * table->row_bytes(), row.data(), table->row_bytes());
  }
  std::ranges::copy(removed, table->ids().begin() + static_cast<std::ptrdiff_t>(ids.size()));
  REQUIRE(table->Index() == absl::OkStatus());
  return table;
}

TEST_CASE("Layers of rows read as the last change of each id") {
  std::mt19937_64 random(GENERATE(range(1, 30)));
  const uint64_t id_count = std::uniform_int_distribution<uint64_t>(1, 3'000)(random);
  const auto random_id = [&] { return random() % id_count * 0x9e3779b97f4a7c15; };
  std::map<uint64_t, float> expected;
  RowLayers layers;
  const int steps = 60;
  for (int step = 0; step < steps; ++step) {
    Changes changes;
    const size_t count = step == 0 ? id_count : random() % (1 + id_count / 20);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = random_id();
      const bool goes = step > 0 && random() % 4 == 0;
      changes[id] =
          goes ? std::nullopt : std::optional<float>(static_cast<float>(random() % 1'000));
    }
    for (const auto& [id, value] : changes) {
      if (value) {
        expected[id] = *value;
      } else {
        expected.erase(id);
      }
    }
    layers = layers.With(kTable, TableOf(changes)).value();
    REQUIRE(layers.rows() == expected.size());
    // Joined layers have few ids twice.
    REQUIRE(layers.bytes() < RowTable::BytesOf(kTable, 2 * id_count + 64));
    std::vector<uint64_t> ids;
    for (int i = 0; i < 500; ++i) ids.push_back(random_id());
    ids.push_back(~uint64_t{0});
    std::vector<const std::byte*> rows(ids.size());
    std::vector<uint32_t> scratch;
    layers.Find(ids, rows, scratch);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = expected.find(ids[i]);
      REQUIRE((rows[i] == nullptr) == (found == expected.end()));
      if (rows[i] == nullptr) continue;
      std::vector<float> row(kDim);
      std::memcpy(row.data(), rows[i], kDim * sizeof(float));
      REQUIRE(row == std::vector<float>(kDim, found->second));
    }
  }
}

TEST_CASE("A change of no rows adds no layer") {
  const RowLayers layers = RowLayers().With(kTable, TableOf({{1, 2.0F}})).value();
  CHECK(layers.With(kTable, TableOf({})).value().bytes() == layers.bytes());
}

TEST_CASE("An id that occurs twice in a table is an error") {
  auto table = RowTable::Create(kTable, 2, 1).value();
  table->ids()[0] = 7;
  table->ids()[1] = 8;
  table->ids()[2] = 7;
  CHECK(table->Index().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("A table takes at most 1.35 times the bytes of ids and weights") {
  const TableConfig table{.name = "t", .dim = 16};
  const uint64_t rows = 1'000'000;
  const double needed = static_cast<double>(rows) * (sizeof(uint64_t) + 16 * sizeof(float));
  CHECK(static_cast<double>(RowTable::BytesOf(table, rows)) <= 1.35 * needed);
}

}  // namespace
}  // namespace simurgh::testing
