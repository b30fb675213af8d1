#include "retrieval/item_index.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "retrieval/score_blocks.h"
#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

using Catch::Contains;

std::vector<float> RandomVectors(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> vectors(count);
  for (float& value : vectors) value = normal(random);
  return vectors;
}

// Small whole numbers: many scores are equal, and all are exact in f32.
std::vector<float> WholeVectors(std::mt19937& random, size_t count) {
  std::vector<float> vectors(count);
  for (float& value : vectors) value = static_cast<float>(static_cast<int>(random() % 5) - 2);
  return vectors;
}

struct Filter {
  std::vector<uint64_t> allowed;
  std::vector<uint32_t> excluded;
  ItemFilter view() const { return {.allowed = allowed, .excluded = excluded}; }
  bool Admits(uint32_t position) const {
    const bool is_allowed = allowed.empty() || (allowed[position / 64] >> (position % 64) & 1) == 1;
    return is_allowed && std::ranges::find(excluded, position) == excluded.end();
  }
};

Filter RandomFilter(std::mt19937& random, size_t items) {
  Filter filter;
  if (random() % 2 == 0) {
    filter.allowed.resize((items + 63) / 64);
    for (uint64_t& bits : filter.allowed) bits = (uint64_t{random()} << 32 | random());
  }
  for (uint32_t item = 0; item < items; ++item) {
    if (random() % 8 == 0) filter.excluded.push_back(item);
  }
  return filter;
}

// All admitted items by their scores in f64, the best first.
struct Exact {
  uint32_t position;
  double score;
};
std::vector<Exact> BruteForce(std::span<const float> query, const std::vector<float>& vectors,
                              const Filter& filter) {
  std::vector<Exact> all;
  const size_t dim = query.size();
  for (uint32_t item = 0; item < vectors.size() / dim; ++item) {
    if (!filter.Admits(item)) continue;
    double score = 0;
    for (size_t i = 0; i < dim; ++i) score += double{query[i]} * double{vectors[item * dim + i]};
    all.push_back({item, score});
  }
  std::ranges::sort(all, [](const Exact& a, const Exact& b) {
    return a.score != b.score ? a.score > b.score : a.position < b.position;
  });
  return all;
}

TEST_CASE("An exact search finds what brute force finds, ties in the order of positions") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int turn = 0; turn < 60; ++turn) {
    const size_t dim = 1 + random() % 70;
    // Some sizes exceed a block.
    const size_t items = random() % (turn % 5 == 0 ? ItemsOfBlock(dim) * 2 + 100 : 300);
    const size_t queries = 1 + random() % 40;
    const size_t k = random() % 20 == 0 ? items + 7 : 1 + random() % 30;
    CAPTURE(turn, dim, items, queries, k);
    const std::vector<float> vectors = WholeVectors(random, items * dim);
    const std::vector<float> users = WholeVectors(random, queries * dim);
    const Filter filter = RandomFilter(random, items);
    const ItemIndex index = ItemIndex::Create(vectors, dim).value();
    REQUIRE(index.size() == items);
    const auto found = index.Search({users.data(), queries, dim}, k, filter.view()).value();
    REQUIRE(found.size() == queries);
    for (size_t query = 0; query < queries; ++query) {
      const auto best = BruteForce(std::span(users).subspan(query * dim, dim), vectors, filter);
      REQUIRE(found[query].size() == std::min(k, best.size()));
      for (size_t i = 0; i < found[query].size(); ++i) {
        REQUIRE(found[query][i].position == best[i].position);
        REQUIRE(found[query][i].score == static_cast<float>(best[i].score));
      }
    }
  }
}

TEST_CASE("Scores of an exact search are products in f32") {
  std::mt19937 random(3);
  constexpr size_t kDim = 48;
  constexpr size_t kItems = 3'000;
  const std::vector<float> vectors = RandomVectors(random, kItems * kDim);
  const std::vector<float> user = RandomVectors(random, kDim);
  const ItemIndex index = ItemIndex::Create(vectors, kDim).value();
  const auto found = index.Search({user.data(), 1, kDim}, 50).value();
  const auto best = BruteForce(user, vectors, {});
  for (size_t i = 0; i < 50; ++i) {
    CHECK(found[0][i].score == Approx(best[i].score).epsilon(1e-5));
  }
}

TEST_CASE("A search of int8 ranks its candidates by products in f32") {
  std::mt19937 random(5);
  constexpr size_t kDim = 32;
  constexpr size_t kItems = 20'000;
  constexpr size_t kQueries = 40;
  constexpr size_t kBest = 50;
  std::vector<float> vectors = RandomVectors(random, kItems * kDim);
  std::fill_n(vectors.begin() + 7 * kDim, kDim, 0.0F);  // A vector without a scale.
  const std::vector<float> users = RandomVectors(random, kQueries * kDim);
  const ItemIndex index =
      ItemIndex::Create(vectors, kDim, {.precision = ItemIndex::Precision::kInt8}).value();
  CHECK(index.bytes() > kItems * kDim * 5);
  const Filter filter = RandomFilter(random, kItems);
  const auto found = index.Search({users.data(), kQueries, kDim}, kBest, filter.view()).value();
  size_t hits = 0;
  for (size_t query = 0; query < kQueries; ++query) {
    const auto best = BruteForce(std::span(users).subspan(query * kDim, kDim), vectors, filter);
    REQUIRE(found[query].size() == kBest);
    for (size_t i = 0; i < kBest; ++i) {
      const FoundItem& item = found[query][i];
      CHECK(filter.Admits(item.position));
      const auto exact = std::ranges::find(best, item.position, &Exact::position);
      CHECK(item.score == Approx(exact->score).epsilon(1e-5));
      if (i > 0) CHECK(item.score <= found[query][i - 1].score);
      if (exact - best.begin() < static_cast<ptrdiff_t>(kBest)) ++hits;
    }
  }
  CHECK(hits >= kQueries * kBest * 99 / 100);
}

TEST_CASE("A graph finds most of the best items, and obeys filters") {
  std::mt19937 random(7);
  constexpr size_t kDim = 16;
  constexpr size_t kItems = 3'000;
  constexpr size_t kQueries = 30;
  constexpr size_t kBest = 20;
  std::vector<float> vectors = RandomVectors(random, kItems * kDim);
  for (size_t item = 0; item < kItems; ++item) {
    const std::span<float> vector = std::span(vectors).subspan(item * kDim, kDim);
    float squares = 0;
    for (const float value : vector) squares += value * value;
    for (float& value : vector) value /= std::sqrt(squares);
  }
  const std::vector<float> users = RandomVectors(random, kQueries * kDim);
  const uint32_t threads = GENERATE(1U, 3U);
  const ItemIndex index =
      ItemIndex::Create(vectors, kDim, {.graph_from = kItems, .threads = threads}).value();
  REQUIRE(index.has_graph());
  CHECK_FALSE(ItemIndex::Create(vectors, kDim, {.graph_from = kItems + 1}).value().has_graph());
  Filter filter;
  SECTION("without a filter") {}
  SECTION("with excluded items") {
    for (uint32_t item = 0; item < 150; ++item) filter.excluded.push_back(item * 20);
  }
  SECTION("with allowed items, which are searched exactly") {
    filter.allowed.resize((kItems + 63) / 64, 0x5555555555555555);
  }
  const auto found = index.Search({users.data(), kQueries, kDim}, kBest, filter.view()).value();
  size_t hits = 0;
  for (size_t query = 0; query < kQueries; ++query) {
    const auto best = BruteForce(std::span(users).subspan(query * kDim, kDim), vectors, filter);
    REQUIRE(found[query].size() == kBest);
    for (const FoundItem& item : found[query]) {
      CHECK(filter.Admits(item.position));
      const auto exact = std::ranges::find(best, item.position, &Exact::position);
      CHECK(item.score == Approx(exact->score).epsilon(1e-5).margin(1e-6));
      if (exact - best.begin() < static_cast<ptrdiff_t>(kBest)) ++hits;
    }
  }
  CHECK(hits >= kQueries * kBest * 95 / 100);
}

TEST_CASE("A graph finds items beside many with one vector") {
  std::mt19937 random(13);
  constexpr size_t kDim = 8;
  constexpr size_t kItems = 3'000;
  constexpr size_t kBest = 20;
  std::vector<float> vectors = RandomVectors(random, kItems * kDim);
  // Items that a model has not seen have one vector.
  for (size_t item = 0; item < kItems; ++item) {
    if (item % 3 != 0) std::copy_n(vectors.begin(), kDim, vectors.begin() + item * kDim);
  }
  const ItemIndex index = ItemIndex::Create(vectors, kDim, {.graph_from = 1}).value();
  REQUIRE(index.has_graph());
  const Filter filter;
  const std::vector<float> users = RandomVectors(random, 20 * kDim);
  const auto found = index.Search({users.data(), 20, kDim}, kBest).value();
  size_t hits = 0;
  for (size_t query = 0; query < found.size(); ++query) {
    const auto best = BruteForce(std::span(users).subspan(query * kDim, kDim), vectors, filter);
    REQUIRE(found[query].size() == kBest);
    for (size_t i = 0; i < kBest; ++i) {
      hits += found[query][i].score == Approx(best[i].score).epsilon(1e-5) ? 1 : 0;
    }
  }
  CHECK(hits >= found.size() * kBest * 95 / 100);
}

TEST_CASE("A graph that misses many of the best items is not used") {
  // Few links and no effort: most items cannot be reached.
  std::mt19937 random(17);
  constexpr size_t kDim = 32;
  const std::vector<float> vectors = RandomVectors(random, 4'000 * kDim);
  const ItemIndex index =
      ItemIndex::Create(vectors, kDim,
                        {.graph_from = 1, .graph_links = 2, .graph_effort = 2, .search_effort = 1})
          .value();
  CHECK_FALSE(index.has_graph());
}

TEST_CASE("A graph that is not needed any more is not finished") {
  std::mt19937 random(9);
  const std::atomic<bool> ends = true;
  const auto index =
      ItemIndex::Create(RandomVectors(random, 1'000), 10, {.graph_from = 1, .ends = &ends});
  CHECK(absl::IsCancelled(index.status()));
}

TEST_CASE("An index without items answers with none") {
  const ItemIndex index = ItemIndex::Create({}, 3, {.graph_from = 1}).value();
  const std::vector<float> user = {1, 2, 3};
  const auto found = index.Search({user.data(), 1, 3}, 10).value();
  REQUIRE(found.size() == 1);
  CHECK(found[0].empty());
}

TEST_CASE("A search for 0 items, and one without queries, find none") {
  const ItemIndex index = ItemIndex::Create({1, 2}, 1).value();
  const std::vector<float> user = {1};
  CHECK(index.Search({user.data(), 1, 1}, 0).value() == std::vector<std::vector<FoundItem>>(1));
  CHECK(index.Search({user.data(), 0, 1}, 3).value().empty());
}

TEST_CASE("Vectors that are not finite are refused with their position") {
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  const auto refused = ItemIndex::Create({1, 2, 3, bad}, 2);
  REQUIRE(absl::IsInvalidArgument(refused.status()));
  CHECK_THAT(std::string(refused.status().message()), Contains("item 1 (from 0)"));

  const ItemIndex index = ItemIndex::Create({1, 2, 3, 4}, 2).value();
  const std::vector<float> users = {1, 1, 1, 1, bad, 1};
  const auto found = index.Search({users.data(), 3, 2}, 1);
  REQUIRE(absl::IsInvalidArgument(found.status()));
  CHECK_THAT(std::string(found.status().message()), Contains("query 2 (from 0)"));
}

TEST_CASE("A score beyond f32 leaves its item out") {
  const std::vector<float> vectors = {1e30F, 1.0F, -1e30F};
  const ItemIndex index = ItemIndex::Create(vectors, 1).value();
  const std::vector<float> user = {1e20F};
  const auto found = index.Search({user.data(), 1, 1}, 3).value();
  CHECK(found[0] == std::vector<FoundItem>{{1, 1e20F}});
}

TEST_CASE("Threads search an index at once") {
  std::mt19937 random(11);
  constexpr size_t kDim = 24;
  const std::vector<float> users = RandomVectors(random, 8 * kDim);
  const auto precision = GENERATE(ItemIndex::Precision::kF32, ItemIndex::Precision::kInt8);
  const ItemIndex index =
      ItemIndex::Create(RandomVectors(random, 9'000 * kDim), kDim, {.precision = precision})
          .value();
  const auto expected = index.Search({users.data(), 8, kDim}, 10).value();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < 10; ++turn) {
          if (index.Search({users.data(), 8, kDim}, 10).value() != expected) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace simurgh::testing
