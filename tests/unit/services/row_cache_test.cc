#include "services/embedding_worker/row_cache.h"

#include <map>
#include <utility>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

const std::vector<uint32_t> kDims = {4, 1, 13};

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
      : random_(seed), max_age_(max_age), ids_(ids), rows_(capacity, max_age, kDims) {}

  void Step(uint64_t step) {
    for (int i = 0; i < 200; ++i) {
      const auto table = static_cast<uint32_t>(random_.Below(kDims.size()));
      const uint64_t id = random_.Below(ids_) * random_.Below(ids_) / ids_;
      const uint64_t at = step - std::min(step, random_.Below(3));
      if (Find(table, id, at)) continue;
      rows_.Insert(table, id, at, RowOf(table, id, at));
      fetched_[{table, id}] = at;  // Replaces an older fetch.
    }
  }

  const RowCache& rows() const { return rows_; }
  uint64_t hits() const { return hits_; }
  uint64_t losses() const { return losses_; }

 private:
  bool Find(uint32_t table, uint64_t id, uint64_t step) {
    std::vector<float> row(kDims[table]);
    const auto age = rows_.Find(table, id, step, row);
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
  RowCache rows(10'000, 2, kDims);
  rows.Insert(0, 7, 5, RowOf(0, 7, 5));
  rows.Insert(0, 7, 4, RowOf(0, 7, 4));
  std::vector<float> row(4);
  CHECK(rows.Find(0, 7, 4, row) == 0);  // Fetched at a later step.
  CHECK(row == RowOf(0, 7, 5));
  CHECK(rows.Find(0, 7, 7, row) == 2);
  CHECK(rows.Find(0, 7, 8, row) == std::nullopt);
  CHECK(rows.Find(2, 7, 5, row) == std::nullopt);
  rows.Insert(0, 7, 6, RowOf(0, 7, 6));
  CHECK(rows.Find(0, 7, 8, row) == 2);
  CHECK(row == RowOf(0, 7, 6));
  CHECK(rows.rows() == 1);
}

TEST_CASE("Row cache: a capacity below one row is valid") {
  const auto capacity = GENERATE(size_t{0}, size_t{31}, size_t{100});
  RowCache rows(capacity, 2, kDims);
  for (uint64_t id = 0; id < 20; ++id) rows.Insert(2, id, 1, RowOf(2, id, 1));
  std::vector<float> row(13);
  rows.Prefetch(2, 3);
  CHECK(rows.Find(2, 3, 1, row) == std::nullopt);
  CHECK(rows.rows() == 0);
  CHECK(rows.bytes() <= capacity);
}

}  // namespace
}  // namespace simurgh
