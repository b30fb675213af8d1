#include "predict/row_table.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

constexpr uint32_t kDim = 4;
const TableConfig kTable{.name = "t", .dim = kDim};

// nullopt: the id went.
using Changes = std::map<uint64_t, std::optional<float>>;

// Weights of mapped tables, as files have them.
std::shared_ptr<const std::byte> Memory(const std::vector<float>& numbers) {
  const auto owner = std::make_shared<std::vector<float>>(numbers);
  return {owner, reinterpret_cast<const std::byte*>(owner->data())};
}

std::shared_ptr<const RowTable> TableOf(const Changes& changes, const RowEncoding& encoding,
                                        bool is_mapped) {
  std::vector<uint64_t> ids;
  std::vector<uint64_t> removed;
  std::vector<float> weights;
  for (const auto& [id, value] : changes) {
    (value ? ids : removed).push_back(id);
    if (value) weights.insert(weights.end(), kDim, *value);
  }
  auto builder = RowTableBuilder::Create(kTable, encoding, is_mapped, ids.size()).value();
  builder.Count(ids);
  REQUIRE(builder.EndCount() == absl::OkStatus());
  for (size_t i = ids.size(); i-- > 0;) {  // In any order.
    const std::span<const uint64_t> id(&ids[i], 1);
    auto row = static_cast<uint32_t>(i);
    const auto* const place = reinterpret_cast<const std::byte*>(&weights[i * kDim]);
    REQUIRE((is_mapped ? builder.AddMapped(id, {&row, 1}) : builder.Add(id, {&place, 1})) ==
            absl::OkStatus());
  }
  if (is_mapped) builder.mapped().Add(Memory(weights), ids.size());
  REQUIRE(builder.Remove(removed) == absl::OkStatus());
  return builder.Finish().value();
}

TEST_CASE("Layers of rows read as the last change of each id") {
  std::mt19937_64 random(GENERATE(range(1, 11)));
  const uint64_t id_count = std::uniform_int_distribution<uint64_t>(1, 3'000)(random);
  const auto random_id = [&] { return random() % id_count * 0x9e3779b97f4a7c15; };
  std::map<uint64_t, float> expected;
  const bool is_mapped = GENERATE(false, true);
  const auto precision =
      is_mapped ? VectorPrecision::kF32 : GENERATE(VectorPrecision::kF32, VectorPrecision::kInt8);
  const RowEncoding encoding(kTable, precision);
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
    layers =
        layers.With(kTable, encoding, is_mapped, TableOf(changes, encoding, is_mapped)).value();
    REQUIRE(layers.rows() == expected.size());
    // Joined layers have few ids twice.
    REQUIRE(layers.bytes() < RowTable::BytesOf(encoding, 2 * id_count + 64, is_mapped));
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
      encoding.Widen(rows[i], row);
      // The scale has 8 bits.
      const float allowed = precision == VectorPrecision::kF32 ? 0 : found->second / 127;
      for (const float number : row) REQUIRE(std::abs(number - found->second) <= allowed);
    }
  }
}

TEST_CASE("A change of no rows adds no layer") {
  const RowEncoding encoding = StoredEncoding(kTable);
  const auto with = [&](const RowLayers& layers, const Changes& changes) {
    return layers.With(kTable, encoding, false, TableOf(changes, encoding, false)).value();
  };
  const RowLayers layers = with(RowLayers(), {{1, 2.0F}});
  CHECK(with(layers, {}).bytes() == layers.bytes());
}

TEST_CASE("An id that occurs twice in a table is an error") {
  const auto build = [](const std::vector<uint64_t>& ids, const std::vector<uint64_t>& removed) {
    auto builder = RowTableBuilder::Create(kTable, StoredEncoding(kTable), false, 2).value();
    builder.Count(ids);
    REQUIRE(builder.EndCount() == absl::OkStatus());
    const float row[kDim] = {};
    const std::vector<const std::byte*> rows(ids.size(), reinterpret_cast<const std::byte*>(row));
    REQUIRE(builder.Add(ids, rows) == absl::OkStatus());
    // More than were counted.
    CHECK(builder.Add(std::span(ids).first(1), rows).code() == absl::StatusCode::kDataLoss);
    const absl::Status gone = builder.Remove(removed);
    return gone.ok() ? builder.Finish().status() : gone;
  };
  CHECK(build({7, 8}, {9, 10}) == absl::OkStatus());
  for (const absl::Status& status :
       {build({7, 8, 7}, {}), build({7, 8}, {7}), build({7}, {9, 9})}) {
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(std::string(status.message()).ends_with(" occurs twice"));
  }
}

// The sizes that config/README.md and the README of services/serving name.
TEST_CASE("Rows of int8 take at most 0.35 of those of f32 with dim 16, 0.30 with dim 64") {
  for (const uint64_t rows : {500'000, 1'100'000, 10'000'000, 100'000'000}) {
    for (const auto& [dim, most] : {std::pair(16U, 0.35), std::pair(64U, 0.30)}) {
      const TableConfig table{.name = "t", .dim = dim};
      const auto bytes = [&](VectorPrecision precision) {
        return static_cast<double>(
            RowTable::BytesOf(RowEncoding(table, precision), rows, /*is_mapped=*/false));
      };
      CAPTURE(rows, dim);
      CHECK(bytes(VectorPrecision::kInt8) <= most * bytes(VectorPrecision::kF32));
      // The index takes few bytes.
      CHECK(bytes(VectorPrecision::kF32) <= 1.1 * static_cast<double>(rows) * (8 + 4.0 * dim));
      CHECK(static_cast<double>(RowTable::BytesOf(RowEncoding(table, VectorPrecision::kF32), rows,
                                                  /*is_mapped=*/true)) <=
            11 * static_cast<double>(rows));
    }
  }
}

TEST_CASE("Rows are encoded to the nearest number of each precision") {
  const uint32_t dim = GENERATE(1U, 3U, 16U, 33U);
  const auto stored = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  const TableConfig table{.name = "t", .dim = dim, .precision = stored};
  const RowEncoding file = StoredEncoding(table);
  std::mt19937_64 random(dim);
  std::normal_distribution<float> normal(0, 0.1F);
  std::vector<float> row(dim);
  for (float& number : row) number = normal(random);
  std::vector<std::byte> bytes(file.row_bytes());
  // Numbers that the file has.
  const TableConfig f32{.name = "t", .dim = dim};
  file.EncodeFrom(StoredEncoding(f32), reinterpret_cast<const std::byte*>(row.data()),
                  bytes.data());
  file.Widen(bytes.data(), row);
  float largest = 0;
  for (const float number : row) largest = std::max(largest, std::abs(number));
  for (const auto precision :
       {VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8}) {
    const RowEncoding encoding(table, precision);
    std::vector<std::byte> encoded(encoding.row_bytes());
    encoding.EncodeFrom(file, bytes.data(), encoded.data());
    std::vector<float> read(dim);
    encoding.Widen(encoded.data(), read);
    for (size_t i = 0; i < dim; ++i) {
      double allowed = 0;
      if (precision == VectorPrecision::kInt8) allowed = largest / 127 * (0.5 + 1.0 / 128);
      if (precision == VectorPrecision::kBf16 && stored == RowPrecision::kF32) {
        allowed = std::abs(row[i]) / 256;
      }
      CAPTURE(dim, i, row[i], read[i]);
      CHECK(std::abs(double{read[i]} - double{row[i]}) <= allowed);
    }
    // Another process can ask for another precision.
    std::vector<std::byte> back(file.row_bytes());
    file.EncodeFrom(encoding, encoded.data(), back.data());
    std::vector<float> again(dim);
    file.Widen(back.data(), again);
    for (size_t i = 0; i < dim; ++i) {
      CHECK(std::abs(again[i] - read[i]) <=
            (stored == RowPrecision::kF32 ? 0 : std::abs(read[i]) / 128));
    }
  }
}

TEST_CASE("Rows of int8 keep zeros, and what is not finite") {
  const TableConfig table{.name = "t", .dim = 3};
  const RowEncoding encoding(table, VectorPrecision::kInt8);
  const auto read = [&](std::vector<float> row) {
    std::vector<std::byte> encoded(encoding.row_bytes());
    encoding.EncodeFrom(StoredEncoding(table), reinterpret_cast<const std::byte*>(row.data()),
                        encoded.data());
    encoding.Widen(encoded.data(), row);
    return row;
  };
  CHECK(read({0, 0, 0}) == std::vector<float>{0, 0, 0});
  CHECK(read({0x1p-120F, 0, 0}) == std::vector<float>{0, 0, 0});
  CHECK(std::isnan(read({1, std::numeric_limits<float>::infinity(), 0})[0]));
  CHECK(std::isnan(read({0, std::numeric_limits<float>::quiet_NaN(), 0})[2]));
  CHECK(std::abs(read({1e38F, -1e38F, 0})[1] + 1e38F) < 1e36F);
}

TEST_CASE("A packed index finds all ids and no others") {
  const size_t count = GENERATE(0, 1, 2, 17, 1'000, 70'000);
  const bool has_rows = GENERATE(false, true);
  // The estimate may be wrong.
  const size_t thirds = GENERATE(3, 1, 12);
  const size_t about = thirds * count / 3;
  std::mt19937_64 random(count);
  std::vector<uint64_t> ids(count);
  for (uint64_t& id : ids) id = random();
  if (count > 1) ids[0] = 0, ids[1] = ~uint64_t{0};
  PackedIndex index(about, has_rows);
  index.Count(ids);
  index.EndCount();
  std::vector<uint32_t> rows(count);
  for (size_t i = 0; i < count; ++i) rows[i] = static_cast<uint32_t>(7 * i);
  REQUIRE(index.Add(ids, rows) == absl::OkStatus());
  REQUIRE(index.EndAdd() == absl::OkStatus());
  CHECK(index.size() == count);
  std::map<uint64_t, uint32_t> expected;
  for (size_t i = 0; i < count; ++i) expected[ids[i]] = rows[i];
  std::vector<uint64_t> asked = ids;
  for (int i = 0; i < 1'000; ++i) asked.push_back(random());
  std::vector<uint32_t> found(asked.size());
  index.Find(asked, found, [](uint32_t) {});
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto own = expected.find(asked[i]);
    REQUIRE(found[i] == (own == expected.end() ? PackedIndex::kAbsent : own->second));
  }
  std::map<uint64_t, uint32_t> all;
  index.ForEachPiece([&](std::span<const uint64_t> some, std::span<const uint32_t> places) {
    for (size_t i = 0; i < some.size(); ++i) all[some[i]] = places[i];
  });
  CHECK(all == expected);
}

}  // namespace
}  // namespace simurgh::testing
