#include "simurgh/nn/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "simurgh/base/check.h"

namespace simurgh {

namespace {

// An even key in the order of the scores; both zeros have the same key.
uint64_t KeyOf(float score) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  return uint64_t{(bits & kSign) != 0 ? ~bits : bits | kSign} << 1;
}

// Sorts 33-bit keys in ascending order; many keys by radix sort with digits of 11 bits.
void SortKeys(std::vector<uint64_t>& keys) {
  constexpr size_t kFew = 4'096;
  constexpr uint32_t kDigitBits = 11;
  constexpr size_t kDigits = size_t{1} << kDigitBits;
  if (keys.size() < kFew) {
    std::ranges::sort(keys);
    return;
  }
  std::vector<uint64_t> sorted(keys.size());
  for (uint32_t shift = 0; shift < 3 * kDigitBits; shift += kDigitBits) {
    const auto digit = [shift](uint64_t key) { return (key >> shift) % kDigits; };
    std::array<size_t, kDigits> begins{};
    for (const uint64_t key : keys) ++begins[digit(key)];
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), size_t{0});
    for (const uint64_t key : keys) sorted[begins[digit(key)]++] = key;
    keys.swap(sorted);
  }
}

}  // namespace

double ExactAuc(std::span<const float> labels, std::span<const float> scores) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  std::vector<uint64_t> ranked(scores.size());  // Keys, with the label in the last bit.
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return std::numeric_limits<double>::quiet_NaN();
    ranked[i] = KeyOf(scores[i]) | (labels[i] > 0.5F ? 1U : 0U);
  }
  SortKeys(ranked);

  // Twice the number of (positive, negative) pairs in the right order, where a tie counts one: an
  // integer, hence exact.
  size_t positives = 0;
  size_t negatives = 0;
  size_t doubled_wins = 0;
  for (size_t begin = 0; begin < ranked.size();) {
    size_t tied_positives = 0;
    size_t end = begin;
    for (; end < ranked.size() && ranked[end] >> 1 == ranked[begin] >> 1; ++end) {
      tied_positives += ranked[end] & 1;
    }
    const size_t tied_negatives = end - begin - tied_positives;
    doubled_wins += tied_positives * (2 * negatives + tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
    begin = end;
  }
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(doubled_wins) /
         (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

double LogLoss(std::span<const float> labels, std::span<const float> probabilities) {
  SIMURGH_CHECK_EQ(labels.size(), probabilities.size());
  constexpr double kSmallest = 1e-7;
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double p = std::clamp(static_cast<double>(probabilities[i]), kSmallest, 1 - kSmallest);
    const double y = labels[i];
    sum -= y * std::log(p) + (1 - y) * std::log1p(-p);
  }
  return sum / static_cast<double>(labels.size());
}

double NormalizedEntropy(std::span<const float> labels, std::span<const float> probabilities) {
  double positives = 0;
  for (const float label : labels) positives += label;
  const double share = positives / static_cast<double>(labels.size());
  const double entropy = -(share * std::log(share) + (1 - share) * std::log1p(-share));
  return LogLoss(labels, probabilities) / entropy;
}

double GroupAuc(std::span<const float> labels, std::span<const float> scores,
                std::span<const uint64_t> groups) {
  SIMURGH_CHECK_EQ(labels.size(), scores.size());
  SIMURGH_CHECK_EQ(labels.size(), groups.size());
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return groups[a] != groups[b] ? groups[a] < groups[b] : a < b;
  });
  std::vector<float> group_labels;
  std::vector<float> group_scores;
  double sum = 0;
  double samples = 0;
  for (size_t begin = 0; begin < order.size();) {
    group_labels.clear();
    group_scores.clear();
    const uint64_t group = groups[order[begin]];
    size_t end = begin;
    bool comparable = true;
    for (; end < order.size() && groups[order[end]] == group; ++end) {
      group_labels.push_back(labels[order[end]]);
      group_scores.push_back(scores[order[end]]);
      if (std::isnan(group_scores.back())) comparable = false;
    }
    begin = end;
    if (!comparable) return std::numeric_limits<double>::quiet_NaN();
    const double auc = ExactAuc(group_labels, group_scores);
    if (std::isnan(auc)) continue;  // A class is missing.
    const auto count = static_cast<double>(group_labels.size());
    sum += count * auc;
    samples += count;
  }
  return sum / samples;
}

double Calibration(std::span<const float> labels, std::span<const float> probabilities) {
  SIMURGH_CHECK_EQ(labels.size(), probabilities.size());
  double predicted = 0;
  double actual = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    predicted += probabilities[i];
    actual += labels[i];
  }
  return predicted / actual;
}

void CorrectForSampling(std::span<float> probabilities, double kept) {
  SIMURGH_CHECK(kept > 0.0 && kept <= 1.0) << kept;
  if (kept == 1.0) return;
  for (float& probability : probabilities) {
    const double p = probability;
    probability = static_cast<float>(p / (p + (1.0 - p) / kept));
  }
}

}  // namespace simurgh
