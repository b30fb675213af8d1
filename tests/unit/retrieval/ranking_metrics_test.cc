#include "retrieval/ranking_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

constexpr double kTolerance = 1e-12;

struct Sample {
  size_t dim = 0;
  std::vector<float> users;
  std::vector<float> items;
  std::vector<UserItems> of_users;

  size_t item_count() const { return items.size() / dim; }
  double Score(size_t user, size_t item) const {
    double score = 0;
    for (size_t d = 0; d < dim; ++d) score += double{users[user * dim + d]} * items[item * dim + d];
    return score;
  }
  StatusOr<RankingResult> Rank(std::span<const uint32_t> top,
                               const OnRankedUser& on_user = nullptr) const {
    return RankItems({users.data(), of_users.size(), dim}, {items.data(), item_count(), dim},
                     of_users, top, on_user);
  }
};

// Small whole numbers: many scores are equal, and all are exact in f32.
std::vector<float> WholeVectors(std::mt19937& random, size_t count) {
  std::vector<float> vectors(count);
  for (float& value : vectors) value = static_cast<float>(static_cast<int>(random() % 5) - 2);
  return vectors;
}

Sample RandomSample(std::mt19937& random, size_t users, size_t items) {
  Sample sample{.dim = 1 + random() % 9};
  sample.users = WholeVectors(random, users * sample.dim);
  sample.items = WholeVectors(random, items * sample.dim);
  for (size_t user = 0; user < users; ++user) {
    UserItems own;
    for (uint32_t item = 0; item < items; ++item) {
      const uint32_t kind = random() % 12;
      if (kind < 2) own.relevant.push_back(item);
      if (kind == 2) own.seen.push_back(item);
    }
    own.unknown = own.relevant.empty() ? 1 : random() % 2;
    sample.of_users.push_back(own);
  }
  return sample;
}

// The definition: sorts all items that were not seen; relevant ones are the last of equal ones.
RankingResult Reference(const Sample& sample, std::span<const uint32_t> top) {
  RankingResult sums{.users = sample.of_users.size(), .items = sample.item_count()};
  for (const uint32_t k : top) sums.at.push_back({.k = k});
  for (size_t user = 0; user < sample.of_users.size(); ++user) {
    const UserItems& own = sample.of_users[user];
    const std::set<uint32_t> relevant(own.relevant.begin(), own.relevant.end());
    std::vector<uint32_t> order;
    for (uint32_t item = 0; item < sample.item_count(); ++item) {
      if (std::ranges::find(own.seen, item) == own.seen.end()) order.push_back(item);
    }
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
      const double left = sample.Score(user, a);
      const double right = sample.Score(user, b);
      return left != right ? left > right : !relevant.contains(a) && relevant.contains(b);
    });
    const size_t wanted = relevant.size() + own.unknown;
    sums.unknown_items += own.unknown;
    for (RankingResult::AtK& at : sums.at) {
      double found = 0;
      double gain = 0;
      double best = 0;
      for (size_t i = 0; i < at.k; ++i) {
        if (i < wanted) best += 1 / std::log2(static_cast<double>(i) + 2);
        if (i >= order.size() || !relevant.contains(order[i])) continue;
        ++found;
        gain += 1 / std::log2(static_cast<double>(i) + 2);
      }
      const auto users = static_cast<double>(sample.of_users.size());
      at.recall += found / static_cast<double>(wanted) / users;
      at.hit_rate += (found > 0 ? 1 : 0) / users;
      at.ndcg += gain / best / users;
    }
    const auto first =
        std::ranges::find_if(order, [&](uint32_t item) { return relevant.contains(item); });
    if (first != order.end()) {
      sums.mrr += 1 / static_cast<double>(first - order.begin() + 1) /
                  static_cast<double>(sample.of_users.size());
    }
  }
  return sums;
}

TEST_CASE("Rankings of all items have the metrics of their definition") {
  const auto seed = static_cast<uint32_t>(Catch::rngSeed());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<uint32_t> top = {1, 3, 20, 1'000};
  for (int round = 0; round < 60; ++round) {
    // More items than a block of products has, and more users than are ranked at a time.
    const size_t items = round == 0 ? 20'000 : 1 + random() % 300;
    const size_t users = round == 1 ? 600 : 1 + random() % 20;
    const Sample sample = RandomSample(random, users, items);
    CAPTURE(round, users, items, sample.dim);
    const StatusOr<RankingResult> found = sample.Rank(top);
    REQUIRE(found.ok());
    const RankingResult wanted = Reference(sample, top);
    CHECK(found->users == users);
    CHECK(found->items == items);
    CHECK(found->unknown_items == wanted.unknown_items);
    CHECK(std::abs(found->mrr - wanted.mrr) < kTolerance);
    for (size_t i = 0; i < top.size(); ++i) {
      CAPTURE(top[i]);
      CHECK(found->at[i].k == top[i]);
      CHECK(std::abs(found->at[i].recall - wanted.at[i].recall) < kTolerance);
      CHECK(std::abs(found->at[i].hit_rate - wanted.at[i].hit_rate) < kTolerance);
      CHECK(std::abs(found->at[i].ndcg - wanted.at[i].ndcg) < kTolerance);
    }
  }
}

TEST_CASE("The metrics of each user are those of a ranking for this user alone") {
  std::mt19937 random(9);
  const std::vector<uint32_t> top = {1, 20};
  const Sample sample = RandomSample(random, 600, 50);
  std::vector<RankingResult> each;
  REQUIRE(sample.Rank(top, [&](const RankingResult& user) { each.push_back(user); }).ok());
  REQUIRE(each.size() == 600);
  for (const size_t user : {0, 1, 255, 256, 599}) {
    Sample alone = sample;
    const auto first = sample.users.begin() + static_cast<std::ptrdiff_t>(user * sample.dim);
    alone.users.assign(first, first + static_cast<std::ptrdiff_t>(sample.dim));
    alone.of_users = {sample.of_users[user]};
    const StatusOr<RankingResult> wanted = alone.Rank(top);
    REQUIRE(wanted.ok());
    CHECK(each[user].users == 1);
    CHECK(each[user].mrr == wanted->mrr);
    for (size_t i = 0; i < top.size(); ++i) {
      CHECK(each[user].at[i].recall == wanted->at[i].recall);
      CHECK(each[user].at[i].hit_rate == wanted->at[i].hit_rate);
      CHECK(each[user].at[i].ndcg == wanted->at[i].ndcg);
    }
  }
}

TEST_CASE("A model that scores all items equally has no hits") {
  Sample sample{.dim = 2, .users = {1, 1}, .items = std::vector<float>(2 * 50, 1)};
  sample.of_users = {{.relevant = {0, 1}}};
  const StatusOr<RankingResult> found = sample.Rank(std::vector<uint32_t>{20, 49, 50});
  REQUIRE(found.ok());
  CHECK(found->at[0].hit_rate == 0);
  CHECK(found->at[1].recall == 0.5);
  CHECK(found->at[2].recall == 1);
  CHECK(found->mrr == 1.0 / 49);
}

TEST_CASE("Unknown items alone are misses") {
  Sample sample{.dim = 1, .users = {1}, .items = {1, 2, 3}};
  sample.of_users = {{.relevant = {}, .unknown = 2}};
  const StatusOr<RankingResult> found = sample.Rank(std::vector<uint32_t>{20});
  REQUIRE(found.ok());
  CHECK(found->at[0].recall == 0);
  CHECK(found->at[0].ndcg == 0);
  CHECK(found->mrr == 0);
  CHECK(found->unknown_items == 2);
}

TEST_CASE("A score that is not finite ends a ranking") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Sample sample{.dim = 1, .users = {1}, .items = {1, kNaN}};
  sample.of_users = {{.relevant = {1}}};
  const auto found = sample.Rank(std::vector<uint32_t>{20});
  REQUIRE_FALSE(found.ok());
  CHECK(found.status().message() ==
        "the score of item 1, counted from 0, is not finite; the weights are too large: lower the "
        "learning rates");
}

}  // namespace
}  // namespace simurgh::testing
