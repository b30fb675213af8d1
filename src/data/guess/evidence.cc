#include "data/guess/evidence.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "base/hash.h"
#include "data/guess/folds.h"
#include "data/processing/numbers.h"

namespace simurgh {
namespace {

// Sums of the labels of a set of rows, one per fold.
struct Sums {
  std::array<double, kFolds> rows = {};
  std::array<double, kFolds> labels = {};
  double all_rows = 0;
  double all_labels = 0;

  void Add(size_t fold, double label) {
    ++rows[fold];
    labels[fold] += label;
    ++all_rows;
    all_labels += label;
  }
  // Returns the mean label outside of a fold, as if `weight` further rows had the label `prior`.
  double MeanOutside(size_t fold, double prior, double weight) const {
    return (all_labels - labels[fold] + weight * prior) / (all_rows - rows[fold] + weight);
  }
};

// A prediction for each row, from statistics of the other folds.
using Predictions = std::vector<double>;

// The rows of one column that have a label and a cell.
class Column {
 public:
  Column(bool is_binary, std::vector<double> labels, std::vector<uint32_t> values, size_t distinct)
      : is_binary_(is_binary),
        labels_(std::move(labels)),
        values_(std::move(values)),
        distinct_(distinct) {
    for (size_t row = 0; row < labels_.size(); ++row) all_.Add(FoldOf(row), labels_[row]);
  }

  size_t rows() const { return labels_.size(); }
  bool IsEnough() const {
    constexpr uint64_t kMinRows = 100;
    constexpr double kMinOfLabel = 10;  // Fewest rows of the rarer label.
    if (rows() < kMinRows) return false;
    return !is_binary_ || std::min(all_.all_labels, all_.all_rows - all_.all_labels) >= kMinOfLabel;
  }

  double Loss(double label, double prediction) const {
    if (!is_binary_) return (label - prediction) * (label - prediction);
    const double p = std::clamp(prediction, 1e-6, 1 - 1e-6);
    return label > 0.5 ? -std::log(p) : -std::log1p(-p);
  }
  double MeanLoss(const Predictions& predictions) const {
    double sum = 0;
    for (size_t row = 0; row < rows(); ++row) sum += Loss(labels_[row], predictions[row]);
    return sum / static_cast<double>(rows());
  }
  Gain GainOf(const Predictions& better, const Predictions& other) const {
    Moments moments;
    for (size_t row = 0; row < rows(); ++row) {
      moments.Add(Loss(labels_[row], other[row]) - Loss(labels_[row], better[row]));
    }
    return {moments.mean(), moments.stddev() / std::sqrt(moments.count())};
  }

  Predictions Constant() const {
    Predictions predictions(rows());
    for (size_t row = 0; row < rows(); ++row) {
      predictions[row] = all_.MeanOutside(FoldOf(row), 0.5 * (is_binary_ ? 1 : 0), 1);
    }
    return predictions;
  }

  // Predicts the mean label of each key, shrunk to `prior` by the weight that loses least.
  Predictions MeanOf(const std::vector<uint32_t>& keys, size_t distinct,
                     const Predictions& prior) const {
    std::vector<Sums> sums(distinct);
    for (size_t row = 0; row < rows(); ++row) sums[keys[row]].Add(FoldOf(row), labels_[row]);
    Predictions best;
    double least = std::numeric_limits<double>::infinity();
    for (const double weight : {1.0, 5.0, 20.0, 80.0}) {
      Predictions predictions(rows());
      for (size_t row = 0; row < rows(); ++row) {
        predictions[row] = sums[keys[row]].MeanOutside(FoldOf(row), prior[row], weight);
      }
      const double loss = MeanLoss(predictions);
      if (loss >= least) continue;
      least = loss;
      best = std::move(predictions);
    }
    return best;
  }
  Predictions ByValue(const Predictions& prior) const { return MeanOf(values_, distinct_, prior); }

  // Predicts a linear or logistic function of numbers. groups: one per row; the fit treats the rows
  // of a group, whose numbers are nearly equal, as one.
  Predictions ByNumber(const std::vector<double>& numbers, const std::vector<uint32_t>& groups,
                       size_t group_count) const {
    Moments moments;
    for (const double number : numbers) moments.Add(number);
    const double deviation = moments.stddev() > 0 ? moments.stddev() : 1;
    const auto scaled = [&](size_t row) { return (numbers[row] - moments.mean()) / deviation; };
    std::vector<Sums> sums(group_count);
    std::vector<double> center(group_count);
    for (size_t row = 0; row < rows(); ++row) {
      sums[groups[row]].Add(FoldOf(row), labels_[row]);
      center[groups[row]] += scaled(row);
    }
    for (size_t i = 0; i < group_count; ++i) center[i] /= std::max(1.0, sums[i].all_rows);
    std::array<std::pair<double, double>, kFolds> lines;
    for (size_t fold = 0; fold < kFolds; ++fold) lines[fold] = FitOutside(fold, sums, center);
    Predictions predictions(rows());
    for (size_t row = 0; row < rows(); ++row) {
      const auto& [start, slope] = lines[FoldOf(row)];
      predictions[row] = Link(start + slope * scaled(row));
    }
    return predictions;
  }

 private:
  double Link(double x) const { return is_binary_ ? 1 / (1 + std::exp(-x)) : x; }

  // Fits start and slope by Newton's method, with a little weight for a slope of zero.
  std::pair<double, double> FitOutside(size_t fold, const std::vector<Sums>& sums,
                                       const std::vector<double>& center) const {
    const double mean = all_.MeanOutside(fold, is_binary_ ? 0.5 : 0, 1);
    double start = is_binary_ ? std::log(mean / (1 - mean)) : mean;
    double slope = 0;
    for (int step = 0; step < (is_binary_ ? 12 : 1); ++step) {
      double g0 = 0;
      double g1 = -slope;
      double h00 = 1e-9;
      double h01 = 0;
      double h11 = 1;
      for (size_t i = 0; i < sums.size(); ++i) {
        const double rows = sums[i].all_rows - sums[i].rows[fold];
        const double labels = sums[i].all_labels - sums[i].labels[fold];
        const double p = Link(start + slope * center[i]);
        const double h = rows * (is_binary_ ? std::max(1e-6, p * (1 - p)) : 1);
        const double g = labels - rows * p;
        g0 += g;
        g1 += g * center[i];
        h00 += h;
        h01 += h * center[i];
        h11 += h * center[i] * center[i];
      }
      const double determinant = h00 * h11 - h01 * h01;
      if (!(determinant > 0)) break;
      // A limit keeps separable labels finite.
      const double more = std::clamp((h11 * g0 - h01 * g1) / determinant, -4.0, 4.0);
      const double steeper = std::clamp((h00 * g1 - h01 * g0) / determinant, -4.0, 4.0);
      start += more;
      slope += steeper;
      if (std::abs(more) + std::abs(steeper) < 1e-4) break;
    }
    return {start, slope};
  }

  bool is_binary_;
  std::vector<double> labels_;
  std::vector<uint32_t> values_;  // Number of the value, one per row.
  size_t distinct_;
  Sums all_;
};

std::vector<uint32_t> RangesOf(const std::vector<double>& numbers, uint32_t ranges) {
  const std::vector<double> boundaries = QuantileBoundaries(numbers, ranges);
  std::vector<uint32_t> keys;
  keys.reserve(numbers.size());
  for (const double number : numbers) {
    keys.push_back(static_cast<uint32_t>(BucketOf(boundaries, number)));
  }
  return keys;
}

}  // namespace

bool Gain::IsSure(double constant) const {
  constexpr double kErrors = 3;
  constexpr double kShare = 0.001;
  return mean > kErrors * error && mean > kShare * constant;
}

double Evidence::least() const {
  return ranges == 0 ? by_value : std::min({by_value, by_range, by_number});
}

KeptLabels::KeptLabels(const KeptRows& rows, size_t column, const ColumnConfig& label)
    : rows_(rows), is_binary_(label.label_values == ColumnConfig::LabelValues::kBinary) {
  Moments moments;
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::string_view cell = rows.Cell(row, column);
    const std::optional<double> number = ParseNumberCell(cell, label.numbers);
    double value = std::numeric_limits<double>::quiet_NaN();
    if (!label.positive.empty()) {
      const std::optional<bool> listed = IsPositive(cell, label);
      if (listed || label.negative.empty()) value = listed.value_or(false) ? 1 : 0;
    } else if (number && (!is_binary_ || *number == 0 || *number == 1)) {
      value = *number;
    }
    labels_.push_back(value);
    if (!std::isnan(value)) moments.Add(value);
  }
  if (is_binary_ || moments.stddev() == 0) return;
  for (double& one : labels_) one = (one - moments.mean()) / moments.stddev();
}

void KeptLabels::MeasurePresence(size_t column, Evidence& evidence) const {
  std::vector<double> labels;
  std::vector<uint32_t> present;
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (std::isnan(labels_[row])) continue;
    labels.push_back(labels_[row]);
    present.push_back(rows_.Cell(row, column).empty() ? 0 : 1);
  }
  const auto missing = std::ranges::count(present, 0);
  if (missing == 0 || missing == std::ssize(present)) return;
  const Column rows(is_binary_, std::move(labels), std::move(present), 2);
  if (!rows.IsEnough()) return;
  const Predictions constant = rows.Constant();
  evidence.constant_of_all = rows.MeanLoss(constant);
  evidence.by_presence = rows.MeanLoss(rows.ByValue(constant));
}

Evidence KeptLabels::Measure(size_t column, bool is_numeric, bool is_log,
                             const NumberFormat& format) const {
  std::vector<double> labels;
  std::vector<double> numbers;
  std::vector<uint32_t> values;
  std::unordered_map<uint64_t, uint32_t> known;
  Evidence evidence{.are_integral = is_numeric};
  for (size_t row = 0; row < rows_.size(); ++row) {
    const std::string_view cell = rows_.Cell(row, column);
    if (std::isnan(labels_[row]) || cell.empty()) continue;
    uint64_t key = HashBytes(cell);
    if (is_numeric) {
      const std::optional<double> number = ParseNumberCell(cell, format);
      if (!number) continue;
      evidence.are_integral &= *number == std::floor(*number);
      numbers.push_back(is_log ? std::log1p(std::max(0.0, *number)) : *number);
      // 3 and 3.0 are one value. Integers above 2^53 can differ although their doubles are equal.
      constexpr double kExact = 9'007'199'254'740'992;
      if (std::abs(*number) < kExact) key = Mix64(std::bit_cast<uint64_t>(*number + 0.0));
    }
    values.push_back(known.try_emplace(key, static_cast<uint32_t>(known.size())).first->second);
    labels.push_back(labels_[row]);
  }
  MeasurePresence(column, evidence);
  const Column rows(is_binary_, std::move(labels), std::move(values), known.size());
  if (!rows.IsEnough()) return evidence;
  evidence.rows = rows.rows();
  const Predictions constant = rows.Constant();
  evidence.constant = rows.MeanLoss(constant);
  const Predictions value = rows.ByValue(constant);
  evidence.by_value = rows.MeanLoss(value);
  if (!is_numeric) return evidence;

  constexpr uint32_t kGroups = 256;
  const Predictions number = rows.ByNumber(numbers, RangesOf(numbers, kGroups), kGroups);
  evidence.by_number = rows.MeanLoss(number);
  Predictions range;
  evidence.by_range = std::numeric_limits<double>::infinity();
  for (const uint32_t ranges : {16U, 64U}) {
    Predictions other = rows.MeanOf(RangesOf(numbers, ranges), ranges, constant);
    const double loss = rows.MeanLoss(other);
    // More ranges must be worth it.
    if (!range.empty() && !rows.GainOf(other, range).IsSure(evidence.constant)) continue;
    evidence.by_range = loss;
    evidence.ranges = ranges;
    range = std::move(other);
  }
  const Predictions& smooth = evidence.by_number < evidence.by_range ? number : range;
  const Predictions both = rows.ByValue(smooth);
  evidence.number = rows.GainOf(number, constant);
  evidence.smooth = rows.GainOf(smooth, constant);
  evidence.value_beyond_smooth = rows.GainOf(both, smooth);
  evidence.value_over_smooth = rows.GainOf(value, smooth);
  return evidence;
}

std::vector<Cross> KeptLabels::FindCrosses(const std::vector<size_t>& columns) const {
  CrossFinder finder(is_binary_);
  for (const double label : labels_) {
    if (!std::isnan(label)) finder.AddLabel(label);
  }
  for (const size_t column : columns) {
    std::vector<uint32_t> values;
    absl::flat_hash_map<std::string_view, uint32_t> known = {{"", CrossFinder::kMissing}};
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (std::isnan(labels_[row])) continue;
      const auto next = static_cast<uint32_t>(known.size());
      values.push_back(known.try_emplace(rows_.Cell(row, column), next).first->second);
    }
    finder.AddColumn(column, std::move(values));
  }
  return finder.Find();
}

}  // namespace simurgh
