#include "simurgh/nn/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "simurgh/base/check.h"

namespace simurgh {

// The upper bits are in the order of the scores; both zeros have the same.
uint64_t RankedScore(float label, float score) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  const uint64_t key = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return key << 1 | (label > 0.5F ? 1U : 0U);
}

// By digits of 11 bits where there are many: ranked scores have 33 bits.
void SortScores(std::vector<uint64_t>& scores) {
  constexpr size_t kFew = 4'096;
  constexpr uint32_t kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  if (scores.size() < kFew) {
    std::ranges::sort(scores);
    return;
  }
  std::vector<uint64_t> sorted(scores.size());
  for (uint32_t shift = 0; shift < 3 * kDigitBits; shift += kDigitBits) {
    const auto digit = [shift](uint64_t score) { return (score >> shift) % kDigits; };
    std::array<size_t, kDigits> begins{};
    for (const uint64_t score : scores) ++begins[digit(score)];
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), size_t{0});
    for (const uint64_t score : scores) sorted[begins[digit(score)]++] = score;
    scores.swap(sorted);
  }
}

void AucSum::Add(uint64_t ranked_score) {
  if (ranked_score >> 1 != score_) {
    CloseTies();
    score_ = ranked_score >> 1;
  }
  ++((ranked_score & 1) != 0 ? tied_positives_ : tied_negatives_);
}

void AucSum::CloseTies() {
  doubled_wins_ += tied_positives_ * (2 * negatives_ + tied_negatives_);
  positives_ += std::exchange(tied_positives_, 0);
  negatives_ += std::exchange(tied_negatives_, 0);
}

double AucSum::value() const {
  AucSum all = *this;
  all.CloseTies();
  if (all.positives_ == 0 || all.negatives_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(all.doubled_wins_) /
         (2.0 * static_cast<double>(all.positives_) * static_cast<double>(all.negatives_));
}

double ExactAuc(std::span<const float> labels, std::span<const float> scores) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  std::vector<uint64_t> ranked(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return std::numeric_limits<double>::quiet_NaN();
    ranked[i] = RankedScore(labels[i], scores[i]);
  }
  SortScores(ranked);
  AucSum auc;
  for (const uint64_t score : ranked) auc.Add(score);
  return auc.value();
}

void GroupAucSum::Add(const GroupedScore& score) {
  if (score.group != group_) {
    CloseGroup();
    group_ = score.group;
  }
  of_group_.Add(score.ranked_score);
}

void GroupAucSum::CloseGroup() {
  const AucSum group = std::exchange(of_group_, {});
  const double auc = group.value();
  if (std::isnan(auc)) return;  // A class is missing.
  const auto count = static_cast<double>(group.samples());
  sum_ += count * auc;
  samples_ += count;
}

double GroupAucSum::value() const {
  GroupAucSum all = *this;
  all.CloseGroup();
  return all.sum_ / all.samples_;
}

void PredictionSums::Add(float label, float probability) {
  constexpr double kSmallest = 1e-7;
  const double p = std::clamp(static_cast<double>(probability), kSmallest, 1 - kSmallest);
  const double y = label;
  ++samples;
  positives += label;
  predicted += probability;
  loss -= y * std::log(p) + (1 - y) * std::log1p(-p);
}

double PredictionSums::normalized_entropy() const {
  const double share = positives / samples;
  return log_loss() / -(share * std::log(share) + (1 - share) * std::log1p(-share));
}

void CorrectForSampling(std::span<float> probabilities, double kept) {
  SIMURGH_CHECK(kept > 0.0 && kept <= 1.0) << kept;
  if (kept == 1.0) return;
  for (float& probability : probabilities) {
    const double p = probability;
    probability = static_cast<float>(p / (p + (1.0 - p) / kept));
  }
}

SlidingAuc::SlidingAuc(size_t window) : window_(window) { SIMURGH_CHECK_LT(0U, window); }

void SlidingAuc::Add(std::span<const float> labels, std::span<const float> scores) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels_.size() < window_) {
      labels_.push_back(labels[i]);
      scores_.push_back(scores[i]);
    } else {
      labels_[next_] = labels[i];
      scores_[next_] = scores[i];
    }
    next_ = (next_ + 1) % window_;
  }
}

double SlidingAuc::Value() const { return ExactAuc(labels_, scores_); }

}  // namespace simurgh
