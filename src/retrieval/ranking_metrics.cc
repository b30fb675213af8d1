#include "retrieval/ranking_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "retrieval/score_blocks.h"

#include "base/check.h"

namespace simurgh {
namespace {

constexpr size_t kScoreFloats = size_t{16} << 20;
constexpr size_t kMostUsers = 256;  // More at a time are no faster.

// Returns the ranks, from 1, of the user's relevant items, ascending. scores: of all items,
// changed.
StatusOr<std::vector<uint64_t>> RanksOf(const UserItems& user, std::span<float> scores) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::vector<float> wanted;
  for (const uint32_t item : user.relevant) {
    if (!std::isfinite(scores[item])) {
      return absl::FailedPreconditionError(
          absl::StrCat("the score of item ", item,
                       ", counted from 0, is not finite; the weights "
                       "are too large: lower the learning rates"));
    }
    wanted.push_back(scores[item]);
    scores[item] = kLowest;
  }
  for (const uint32_t item : user.seen) scores[item] = kLowest;
  std::ranges::sort(wanted, std::greater<>());
  // Number of other items that come before the relevant one of an index, and not before the last.
  std::vector<uint64_t> before(wanted.size());
  if (wanted.size() == 1) {
    const float least = wanted[0];
    for (const float score : scores) before[0] += score >= least ? 1 : 0;
  } else if (!wanted.empty()) {
    const float least = wanted.back();
    for (const float score : scores) {
      if (!(score >= least)) continue;
      const auto first = std::ranges::lower_bound(wanted, score, std::greater<>());
      ++before[static_cast<size_t>(first - wanted.begin())];
    }
  }
  std::vector<uint64_t> ranks;
  uint64_t others = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    others += before[i];
    ranks.push_back(others + i + 1);
  }
  return ranks;
}

double Discount(uint64_t rank) { return 1 / std::log2(static_cast<double>(rank) + 1); }

// Sets the metrics of one user.
void SetUser(std::span<const uint64_t> ranks, size_t relevant, RankingResult& user) {
  for (RankingResult::AtK& at : user.at) {
    size_t found = 0;
    double gain = 0;
    for (; found < ranks.size() && ranks[found] <= at.k; ++found) gain += Discount(ranks[found]);
    double best = 0;
    for (uint64_t rank = 1; rank <= std::min<uint64_t>(at.k, relevant); ++rank) {
      best += Discount(rank);
    }
    at.recall = static_cast<double>(found) / static_cast<double>(relevant);
    at.hit_rate = found > 0 ? 1 : 0;
    at.ndcg = gain / best;
  }
  user.mrr = ranks.empty() ? 0 : 1 / static_cast<double>(ranks.front());
}

void Add(const RankingResult& user, RankingResult& sums) {
  for (size_t i = 0; i < sums.at.size(); ++i) {
    sums.at[i].recall += user.at[i].recall;
    sums.at[i].hit_rate += user.at[i].hit_rate;
    sums.at[i].ndcg += user.at[i].ndcg;
  }
  sums.mrr += user.mrr;
}

}  // namespace

StatusOr<RankingResult> RankItems(MatrixView<const float> users, MatrixView<const float> items,
                                  std::span<const UserItems> of_users,
                                  std::span<const uint32_t> top, const OnRankedUser& on_user) {
  SIMURGH_CHECK_EQ(users.rows(), of_users.size());
  RankingResult result{.users = of_users.size(), .items = items.rows()};
  for (const uint32_t k : top) result.at.push_back({.k = k});
  RankingResult of_user{.users = 1, .items = items.rows(), .at = result.at};
  const size_t count = items.rows();
  const size_t most = std::clamp<size_t>(kScoreFloats / std::max<size_t>(count, 1), 1, kMostUsers);
  std::vector<float> scores(std::min(most, users.rows()) * count);
  for (size_t first = 0; first < users.rows(); first += most) {
    const size_t rows = std::min(most, users.rows() - first);
    const MatrixView<float> all(scores.data(), rows, count);
    SIMURGH_RETURN_IF_ERROR(
        ScoreBlocks(users.Rows(first, rows), items, [&](size_t column, MatrixView<float> block) {
          for (size_t row = 0; row < rows; ++row) {
            std::ranges::copy(block.row(row),
                              all.row(row).subspan(column, block.columns()).begin());
          }
        }));
    for (size_t row = 0; row < rows; ++row) {
      const UserItems& user = of_users[first + row];
      SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ranks, RanksOf(user, all.row(row)));
      SetUser(ranks, user.relevant.size() + user.unknown, of_user);
      Add(of_user, result);
      if (on_user) on_user(of_user);
      result.unknown_items += user.unknown;
    }
  }
  const auto users_count = static_cast<double>(of_users.size());
  for (RankingResult::AtK& at : result.at) {
    at.recall /= users_count;
    at.hit_rate /= users_count;
    at.ndcg /= users_count;
  }
  result.mrr /= users_count;
  return result;
}

}  // namespace simurgh
