#include "embedding/row_cache.h"

#include <map>
#include <span>
#include <utility>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

const std::vector<size_t> kDims = {4, 1, 13};
const std::vector<size_t> kRowBytes = {16, 4, 52};

std::span<const std::byte> BytesOf(const std::vector<float>& row) {
  return std::as_bytes(std::span(row));
}

// The row that a server returns at a step.
std::vector<float> RowOf(uint32_t table, uint64_t id, uint64_t step) {
  std::vector<float> row(kDims[table]);
  for (size_t d = 0; d < row.size(); ++d) {
    row[d] = static_cast<float>(id * 1'000 + step) + 0.01F * static_cast<float>(d + table);
  }
  return row;
}

// Random fetches and look-ups of a trainer whose steps go up, some of them out of order, beside a
// plain map that never forgets.
class Model {
 public:
  Model(uint64_t seed, size_t capacity, uint32_t max_age, uint64_t ids)
      : random_(seed), max_age_(max_age), ids_(ids), rows_(capacity, max_age, kRowBytes) {}

  void Step(uint64_t step) {
    for (int i = 0; i < 200; ++i) {
      const auto table = static_cast<uint32_t>(random_.Below(kDims.size()));
      const uint64_t id = random_.Below(ids_) * random_.Below(ids_) / ids_;
      const uint64_t at = step - std::min(step, random_.Below(3));
      if (Find(table, id, at)) continue;
      rows_.Insert(table, id, at, BytesOf(RowOf(table, id, at)));
      fetched_[{table, id}] = at;  // Replaces an older fetch.
    }
  }

  const RowCache& rows() const { return rows_; }
  uint64_t hits() const { return hits_; }
  uint64_t losses() const { return losses_; }

 private:
  bool Find(uint32_t table, uint64_t id, uint64_t step) {
    std::vector<float> row(kDims[table]);
    const auto age = rows_.Find(table, id, step, std::as_writable_bytes(std::span(row)));
    const auto known = fetched_.find({table, id});
    const bool may_be_here =
        known != fetched_.end() && step - std::min(step, known->second) <= max_age_;
    if (!age) {
      losses_ += may_be_here ? 1 : 0;
      return false;
    }
    CAPTURE(table, id, step, *age);
    REQUIRE(may_be_here);
    REQUIRE(*age <= max_age_);
    // The latest fetch.
    REQUIRE(row == RowOf(table, id, known->second));
    REQUIRE(*age == step - std::min(step, known->second));
    ++hits_;
    return true;
  }

  Random random_;
  const uint32_t max_age_;
  const uint64_t ids_;
  RowCache rows_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> fetched_;
  uint64_t hits_ = 0;
  uint64_t losses_ = 0;
};

TEST_CASE("Row cache: a hit is the latest fetch of its row and valid") {
  const uint64_t seed = GENERATE(1, 2, 3);
  const uint32_t max_age = GENERATE(1, 4, 63);
  const auto capacity = GENERATE(size_t{700}, size_t{5'000}, size_t{1} << 20);
  CAPTURE(seed, max_age, capacity);
  Model model(seed, capacity, max_age, /*ids=*/300);
  const size_t bytes = model.rows().bytes();
  CHECK(bytes <= capacity);
  for (uint64_t step = 0; step < 300; ++step) model.Step(step);
  CHECK(model.rows().bytes() == bytes);
  CHECK(model.hits() > 0);
  // A record has 24 bytes besides its floats.
  CHECK(model.rows().rows() * (24 + 4) <= capacity);
  if (capacity >= size_t{1} << 20) {
    CHECK(model.rows().evicted_for_space() == 0);
    CHECK(model.losses() < 50);  // Full buckets of the index.
  } else {
    CHECK(model.rows().evicted_for_space() > 0);
  }
}

TEST_CASE("Row cache: a row of an earlier step does not replace a later one") {
  RowCache rows(10'000, 2, kRowBytes);
  rows.Insert(0, 7, 5, BytesOf(RowOf(0, 7, 5)));
  rows.Insert(0, 7, 4, BytesOf(RowOf(0, 7, 4)));
  std::vector<float> row(4);
  CHECK(rows.Find(0, 7, 4, std::as_writable_bytes(std::span(row))) ==
        0);  // Fetched at a later step.
  CHECK(row == RowOf(0, 7, 5));
  CHECK(rows.Find(0, 7, 7, std::as_writable_bytes(std::span(row))) == 2);
  CHECK(rows.Find(0, 7, 8, std::as_writable_bytes(std::span(row))) == std::nullopt);
  CHECK(rows.Find(2, 7, 5, std::as_writable_bytes(std::span(row))) == std::nullopt);
  rows.Insert(0, 7, 6, BytesOf(RowOf(0, 7, 6)));
  CHECK(rows.Find(0, 7, 8, std::as_writable_bytes(std::span(row))) == 2);
  CHECK(row == RowOf(0, 7, 6));
  CHECK(rows.rows() == 1);
}

TEST_CASE("Row cache: a capacity below one row is valid") {
  const auto capacity = GENERATE(size_t{0}, size_t{31}, size_t{100});
  RowCache rows(capacity, 2, kRowBytes);
  for (uint64_t id = 0; id < 20; ++id) rows.Insert(2, id, 1, BytesOf(RowOf(2, id, 1)));
  std::vector<float> row(13);
  rows.Prefetch(2, 3);
  CHECK(rows.Find(2, 3, 1, std::as_writable_bytes(std::span(row))) == std::nullopt);
  CHECK(rows.rows() == 0);
  CHECK(rows.bytes() <= capacity);
}

TEST_CASE("Row cache: rows that were erased or cleared are not found, others are") {
  const uint64_t seed = GENERATE(1, 2, 3);
  const auto capacity = GENERATE(size_t{2'000}, size_t{1} << 20);
  Random random(seed);
  RowCache rows(capacity, UINT32_MAX, kRowBytes);
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> versions;  // Of the rows that may be found.
  uint64_t hits = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const auto table = static_cast<uint32_t>(random.Below(kDims.size()));
    const uint64_t id = random.Below(60);
    std::vector<float> row(kDims[table]);
    if (random.Below(2'000) == 0) {
      rows.Clear();
      versions.clear();
      CHECK(rows.rows() == 0);
    }
    if (random.Below(3) == 0) {
      rows.Erase(table, id);
      versions.erase({table, id});
    }
    const auto known = versions.find({table, id});
    if (rows.Find(table, id, 0, std::as_writable_bytes(std::span(row)))) {
      ++hits;
      REQUIRE(known != versions.end());
      REQUIRE(row == RowOf(table, id, known->second));
    } else {
      // Every change of a row is another one. The ring may have lost it.
      versions[{table, id}] = i;
      rows.Insert(table, id, 0, BytesOf(RowOf(table, id, i)));
    }
  }
  CHECK(hits > 1'000);
}

}  // namespace
}  // namespace simurgh
