#include "nn/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

// By definition, over all pairs of a positive and a negative.
double PairCountingAuc(const std::vector<float>& labels, const std::vector<float>& scores) {
  double wins = 0;
  double pairs = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != 1.0F || labels[j] != 0.0F) continue;
      pairs += 1;
      wins += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
    }
  }
  return wins / pairs;
}

TEST_CASE("AUC equals pair counting, with and without ties") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const size_t count = 2 + random.Below(200);
    const uint64_t levels = seed % 2 == 0 ? 5 : 1'000'000;
    std::vector<float> labels(count);
    std::vector<float> scores(count);
    for (size_t i = 0; i < count; ++i) {
      labels[i] = i < 2 ? static_cast<float>(i) : static_cast<float>(random.Below(2));
      scores[i] = static_cast<float>(random.Below(levels)) - 2.0F;
    }
    CHECK(ExactAuc(labels, scores) == Approx(PairCountingAuc(labels, scores)).epsilon(1e-12));
  }
}

// Many scores use radix sort; repeated samples must not change the AUC.
TEST_CASE("AUC of repeated samples equals that of the samples") {
  Random random(3);
  std::vector<float> labels{0, 1};
  std::vector<float> scores{-0.0F, 0.0F};  // A tie.
  for (int i = 0; i < 150; ++i) {
    labels.push_back(static_cast<float>(random.Below(2)));
    scores.push_back(static_cast<float>(random.Uniform() * 2 - 1) * (i % 2 == 0 ? 1e-30F : 1e30F));
  }
  scores.back() = std::numeric_limits<float>::infinity();
  scores[5] = -std::numeric_limits<float>::infinity();
  std::vector<float> many_labels;
  std::vector<float> many_scores;
  for (int i = 0; i < 40; ++i) {
    many_labels.insert(many_labels.end(), labels.begin(), labels.end());
    many_scores.insert(many_scores.end(), scores.begin(), scores.end());
  }
  CHECK(ExactAuc(many_labels, many_scores) ==
        Approx(PairCountingAuc(labels, scores)).epsilon(1e-12));
}

TEST_CASE("AUC of a perfect, a reversed and a constant ranking") {
  const std::vector<float> labels{0, 0, 1, 1};
  CHECK(ExactAuc(labels, std::vector<float>{1, 2, 3, 4}) == 1.0);
  CHECK(ExactAuc(labels, std::vector<float>{4, 3, 2, 1}) == 0.0);
  CHECK(ExactAuc(labels, std::vector<float>{7, 7, 7, 7}) == 0.5);
}

TEST_CASE("AUC without a class, without samples or with a NaN score is NaN") {
  CHECK(std::isnan(ExactAuc(std::vector<float>{1, 1}, std::vector<float>{0.1F, 0.2F})));
  CHECK(std::isnan(ExactAuc(std::vector<float>{0, 0}, std::vector<float>{0.1F, 0.2F})));
  CHECK(std::isnan(ExactAuc({}, {})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(ExactAuc(std::vector<float>{0, 1, 1}, std::vector<float>{0.5F, nan, 0.2F})));
}

PredictionSums SumsOf(const std::vector<float>& labels, const std::vector<float>& probabilities) {
  PredictionSums sums;
  for (size_t i = 0; i < labels.size(); ++i) sums.Add({}, labels[i], probabilities[i]);
  return sums;
}

double LogLoss(const std::vector<float>& labels, const std::vector<float>& probabilities) {
  return SumsOf(labels, probabilities).log_loss();
}

double Calibration(const std::vector<float>& labels, const std::vector<float>& probabilities) {
  return SumsOf(labels, probabilities).calibration();
}

double NormalizedEntropy(const std::vector<float>& labels,
                         const std::vector<float>& probabilities) {
  return SumsOf(labels, probabilities).normalized_entropy();
}

double GroupAuc(const std::vector<float>& labels, const std::vector<float>& scores,
                const std::vector<uint64_t>& groups) {
  std::vector<GroupedScore> grouped;
  for (size_t i = 0; i < labels.size(); ++i) {
    grouped.push_back({groups[i], RankedScore(labels[i], scores[i])});
  }
  std::ranges::sort(grouped);
  GroupAucSum auc;
  for (const GroupedScore& score : grouped) auc.Add(score);
  return auc.value();
}

TEST_CASE("log loss of known probabilities, and clamped at certainty") {
  CHECK(LogLoss(std::vector<float>{1, 0}, std::vector<float>{0.5F, 0.5F}) ==
        Approx(std::log(2.0)).epsilon(1e-12));
  CHECK(LogLoss(std::vector<float>{1, 0}, std::vector<float>{0.25F, 0.25F}) ==
        Approx(-(std::log(0.25) + std::log(0.75)) / 2).epsilon(1e-12));
  CHECK(LogLoss(std::vector<float>{1}, std::vector<float>{0}) ==
        Approx(-std::log(1e-7)).epsilon(1e-9));
  CHECK(LogLoss(std::vector<float>{0}, std::vector<float>{1}) ==
        Approx(-std::log(1e-7)).epsilon(1e-6));
  CHECK(std::isnan(LogLoss({}, {})));
}

TEST_CASE("Calibration is predictions over positives") {
  const std::vector<float> labels = {1, 0, 0, 1};
  CHECK(Calibration(labels, std::vector<float>{0.5F, 0.5F, 0.5F, 0.5F}) == Approx(1.0));
  CHECK(Calibration(labels, std::vector<float>{0.9F, 0.5F, 0.7F, 0.9F}) == Approx(1.5));
}

TEST_CASE("the normalized entropy of the share of positives is 1, of a better model below") {
  const std::vector<float> labels{1, 0, 0, 0};
  CHECK(NormalizedEntropy(labels, std::vector<float>(4, 0.25F)) == Approx(1.0));
  const double entropy = -(0.25 * std::log(0.25) + 0.75 * std::log(0.75));
  const double loss = -(std::log(0.5) + std::log(0.9) * 3) / 4;
  CHECK(NormalizedEntropy(labels, std::vector<float>{0.5F, 0.1F, 0.1F, 0.1F}) ==
        Approx(loss / entropy).epsilon(1e-6));
  CHECK(std::isnan(NormalizedEntropy(std::vector<float>{1, 1}, std::vector<float>{0.5F, 0.5F})));
}

TEST_CASE("weighted metrics are those of samples repeated by their weights, and of pairs") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<float> labels;
    std::vector<float> scores;
    std::vector<float> weights;
    std::vector<uint64_t> groups;
    std::vector<float> all_labels;
    std::vector<float> all_scores;
    std::vector<uint64_t> all_groups;
    PredictionSums weighted;
    PredictionSums repeated;
    for (uint64_t i = 2 + random.Below(60); i > 0; --i) {
      labels.push_back(static_cast<float>(random.Below(2)));
      scores.push_back(static_cast<float>(1 + random.Below(9)) / 16);
      weights.push_back(static_cast<float>(random.Below(4)));
      groups.push_back(random.Below(5));
      weighted.Add({}, labels.back(), scores.back(), weights.back());
      for (float n = 0; n < weights.back(); ++n) {
        all_labels.push_back(labels.back());
        all_scores.push_back(scores.back());
        all_groups.push_back(groups.back());
        repeated.Add({}, labels.back(), scores.back());
      }
    }
    const auto same = [](double one, double other) {
      return (std::isnan(one) && std::isnan(other)) || one == Approx(other).epsilon(1e-12);
    };
    const double auc = ExactAuc(labels, scores, weights);
    CHECK(same(auc, ExactAuc(all_labels, all_scores)));
    double wins = 0;
    double pairs = 0;
    for (size_t a = 0; a < labels.size(); ++a) {
      for (size_t b = 0; b < labels.size(); ++b) {
        if (labels[a] <= labels[b]) continue;
        const double weight = double{weights[a]} * weights[b];
        pairs += weight;
        wins += weight * (scores[a] > scores[b] ? 1.0 : scores[a] == scores[b] ? 0.5 : 0.0);
      }
    }
    CHECK(same(auc, wins / pairs));
    SlidingAuc sliding(labels.size());
    sliding.Add(labels, scores, weights);
    CHECK(same(sliding.Value(), auc));
    std::vector<GroupedScore> grouped;
    for (size_t i = 0; i < labels.size(); ++i) {
      grouped.push_back({groups[i], RankedScore(labels[i], scores[i]), double{weights[i]}});
    }
    std::ranges::sort(grouped);
    GroupAucSum group_auc;
    for (const GroupedScore& score : grouped) group_auc.Add(score);
    CHECK(same(group_auc.value(), GroupAuc(all_labels, all_scores, all_groups)));
    CHECK(same(weighted.log_loss(), repeated.log_loss()));
    CHECK(same(weighted.calibration(), repeated.calibration()));
    CHECK(same(weighted.normalized_entropy(), repeated.normalized_entropy()));
    CHECK(same(weighted.rmse(), repeated.rmse()));
  }
}

TEST_CASE("the losses of known predictions") {
  using Kind = LossConfig::Kind;
  const auto loss = [](const LossConfig& config, float label, float prediction) {
    PredictionSums sums;
    sums.Add(config, label, prediction);
    return sums.mean_loss();
  };
  CHECK(loss({}, 1, 0.25F) == Approx(-std::log(0.25)));
  CHECK(loss({.positive_weight = 3}, 1, 0.25F) == Approx(-3 * std::log(0.25)));
  CHECK(loss({.kind = Kind::kFocal}, 0, 0.25F) == Approx(-0.0625 * std::log(0.75)));
  CHECK(loss({.kind = Kind::kSquaredError}, -2, 1) == 9);
  CHECK(loss({.kind = Kind::kPoisson}, 3, 2) == Approx(2 - 3 * std::log(2.0)));
  CHECK(std::isfinite(loss({.kind = Kind::kPoisson}, 3, 0)));
  PredictionSums sums;
  sums.Add({.kind = Kind::kSquaredError}, 1, 4, 1);
  sums.Add({.kind = Kind::kSquaredError}, 3, 4, 3);
  CHECK(sums.rmse() == Approx(std::sqrt((9.0 + 3.0) / 4)));
  CHECK(sums.constant_rmse() == Approx(std::sqrt((2.25 + 3 * 0.25) / 4)));
  CHECK(sums.calibration() == Approx(16.0 / 10));
  CHECK(std::isnan(PredictionSums().rmse()));
}

TEST_CASE("the AUC of groups weighs each group that has both classes by its samples") {
  const uint64_t far = uint64_t{1} << 63;
  const std::vector<uint64_t> groups{far, 7, far, 7, 7, 3, 3};
  const std::vector<float> labels{1, 1, 0, 0, 0, 1, 1};
  const std::vector<float> scores{0.9F, 0.2F, 0.1F, 0.1F, 0.3F, 0.0F, 1.0F};
  // far: 1; 7: one pair of two right; 3: no negatives.
  CHECK(GroupAuc(labels, scores, groups) == Approx((2 * 1.0 + 3 * 0.5) / 5));
  CHECK(GroupAuc(labels, scores, std::vector<uint64_t>(7, 1)) == Approx(ExactAuc(labels, scores)));
  CHECK(std::isnan(
      GroupAuc(std::vector<float>{1, 0}, std::vector<float>{0, 1}, std::vector<uint64_t>{1, 2})));
  CHECK(std::isnan(GroupAuc({}, {}, {})));
}

}  // namespace
}  // namespace simurgh
