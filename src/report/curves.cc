#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

namespace simurgh {
namespace {

constexpr size_t kDeciles = 10;
constexpr size_t kPoints = 200;
constexpr size_t kBins = 40;
constexpr double kChoices[] = {0.01, 0.05, 0.1, 0.2, 0.5};
constexpr double kPercentiles[] = {1, 5, 25, 50, 75, 95, 99};

// Returns a percentile of sorted numbers, linear between neighbours.
double PercentileOf(std::span<const float> sorted, double percent) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

PredictionBin BinOf(const LabelledRows& rows, std::span<const uint32_t> members, bool are_shares) {
  PredictionBin bin{.rows = members.size(),
                    .lowest = rows.predictions[members.front()],
                    .highest = rows.predictions[members.back()]};
  double squared_weights = 0;
  double squared_labels = 0;
  std::vector<float> labels;
  for (const uint32_t row : members) {
    const double weight = rows.weights[row];
    const double label = rows.labels[row];
    bin.weight += weight;
    squared_weights += weight * weight;
    bin.prediction += weight * rows.predictions[row];
    bin.label += weight * label;
    squared_labels += weight * label * label;
    labels.push_back(rows.labels[row]);
  }
  bin.prediction /= bin.weight;
  bin.label /= bin.weight;
  const double effective = bin.weight * bin.weight / squared_weights;
  if (are_shares) {
    bin.interval = WilsonInterval(bin.label * effective, effective);
  } else {
    const double variance = std::max(0.0, squared_labels / bin.weight - bin.label * bin.label);
    bin.interval = StudentInterval(bin.label, std::sqrt(variance / (effective - 1)), effective - 1);
  }
  std::ranges::sort(labels);
  bin.low_label = PercentileOf(labels, 10);
  bin.high_label = PercentileOf(labels, 90);
  return bin;
}

}  // namespace

std::vector<PredictionBin> DecilesOf(const LabelledRows& rows, bool are_shares) {
  const std::vector<uint32_t> order = OrderOf(rows.predictions);
  std::vector<PredictionBin> bins;
  size_t first = 0;  // Begin of the open part.
  size_t decile = 0;
  for (size_t i = 0; i <= order.size(); ++i) {
    const bool is_tie =
        i > 0 && i < order.size() && rows.predictions[order[i]] == rows.predictions[order[i - 1]];
    const size_t own = i * kDeciles / std::max<size_t>(order.size(), 1);
    if (i < order.size() && (is_tie || own == decile)) continue;
    if (i > first) {
      bins.push_back(BinOf(rows, std::span(order).subspan(first, i - first), are_shares));
    }
    first = i;
    decile = own;
  }
  return bins;
}

RankingCurves CurvesOf(const LabelledRows& rows) {
  RankingCurves curves;
  double positives = 0;
  double all = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    all += rows.weights[row];
    positives += double{rows.weights[row]} * rows.labels[row];
  }
  if (!(positives > 0) || !(all > positives)) return curves;
  const std::vector<uint32_t> order = OrderOf(rows.predictions);
  double selected = 0;
  double found = 0;
  double recall = 0;
  size_t choice = 0;
  const size_t step = std::max<size_t>(1, order.size() / kPoints);
  size_t next = 0;  // Rank from which on the next point is kept.
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const uint32_t row = order[order.size() - 1 - rank];
    selected += rows.weights[row];
    found += double{rows.weights[row]} * rows.labels[row];
    const bool is_last = rank + 1 == order.size();
    if (!is_last && rows.predictions[order[order.size() - 2 - rank]] == rows.predictions[row]) {
      continue;
    }
    const OperatingPoint point{.threshold = rows.predictions[row],
                               .share = selected / all,
                               .recall = found / positives,
                               .fall_out = (selected - found) / (all - positives),
                               .precision = found / selected};
    curves.average_precision += point.precision * (point.recall - recall);
    recall = point.recall;
    if (rank >= next || is_last) {
      curves.points.push_back(point);
      next = rank + step;
    }
    const double ranked = static_cast<double>(rank + 1) / static_cast<double>(order.size());
    if (choice >= std::size(kChoices) || ranked < kChoices[choice]) continue;
    while (choice < std::size(kChoices) && ranked >= kChoices[choice]) ++choice;
    if (!is_last) curves.choices.push_back(point);
  }
  return curves;
}

std::vector<double> PercentilesOf(std::vector<float> values) {
  std::ranges::sort(values);
  std::vector<double> percentiles;
  for (const double percent : kPercentiles) percentiles.push_back(PercentileOf(values, percent));
  return percentiles;
}

BinnedCounts ScoresByLabel(const LabelledRows& rows) {
  BinnedCounts histogram{.first = std::vector<double>(kBins), .second = std::vector<double>(kBins)};
  if (rows.size() == 0) return histogram;
  const auto [lowest, highest] = std::ranges::minmax(rows.predictions);
  histogram.low = lowest;
  histogram.width = (double{highest} - lowest) / kBins;
  for (size_t row = 0; row < rows.size(); ++row) {
    const double place =
        histogram.width > 0 ? (rows.predictions[row] - histogram.low) / histogram.width : 0;
    const size_t bin = std::min(static_cast<size_t>(place), kBins - 1);
    (rows.labels[row] == 1.0F ? histogram.first : histogram.second)[bin] += rows.weights[row];
  }
  return histogram;
}

Residuals ResidualsOf(const LabelledRows& rows) {
  Residuals found{.histogram = {.first = std::vector<double>(kBins), .second = {}}};
  double weight = 0;
  double labels = 0;
  double squared_labels = 0;
  double squared = 0;
  std::vector<float> residuals;
  for (size_t row = 0; row < rows.size(); ++row) {
    const double w = rows.weights[row];
    const double residual = double{rows.labels[row]} - rows.predictions[row];
    weight += w;
    labels += w * rows.labels[row];
    squared_labels += w * double{rows.labels[row]} * rows.labels[row];
    squared += w * residual * residual;
    found.mean += w * residual;
    found.mean_absolute += w * std::abs(residual);
    residuals.push_back(static_cast<float>(residual));
  }
  found.mean /= weight;
  found.mean_absolute /= weight;
  const double variance = squared_labels / weight - labels / weight * (labels / weight);
  found.r_squared =
      variance > 0 ? 1 - squared / weight / variance : std::numeric_limits<double>::quiet_NaN();
  std::vector<float> sorted = residuals;
  std::ranges::sort(sorted);
  found.percentiles = PercentilesOf(residuals);
  BinnedCounts& histogram = found.histogram;
  histogram.low = PercentileOf(sorted, 0.5);
  histogram.width = (PercentileOf(sorted, 99.5) - histogram.low) / kBins;
  for (size_t row = 0; row < rows.size(); ++row) {
    const double place =
        histogram.width > 0 ? (residuals[row] - histogram.low) / histogram.width : 0;
    const double bin = std::clamp(place, 0.0, static_cast<double>(kBins - 1));
    histogram.first[static_cast<size_t>(bin)] += rows.weights[row];
  }
  return found;
}

}  // namespace simurgh
