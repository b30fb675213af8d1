#include "report/bootstrap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <thread>

#include "base/hash.h"
#include "base/random.h"
#include "nn/metrics.h"
#include "report/poisson_table.h"

namespace simurgh {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Replicates that are computed together: one hash has the draws of four.
constexpr size_t kTogether = 8;
constexpr size_t kDrawsOfHash = 4;

// Rows in the order of their predictions.
struct Sorted {
  std::vector<float> labels;
  std::vector<float> predictions;
  std::vector<float> weights;
  std::vector<uint64_t> units;
  std::vector<float> losses;  // Cross entropy, or squared error.
};

Sorted SortedRows(const LabelledRows& rows, bool is_regression) {
  Sorted sorted;
  for (const uint32_t row : OrderOf(rows.predictions)) {
    sorted.labels.push_back(rows.labels[row]);
    sorted.predictions.push_back(rows.predictions[row]);
    sorted.weights.push_back(rows.weights[row]);
    sorted.units.push_back(Mix64(rows.units[row]));
    PredictionSums one;
    one.Add({.kind = is_regression ? LossConfig::Kind::kSquaredError : LossConfig::Kind::kBce},
            rows.labels[row], rows.predictions[row]);
    sorted.losses.push_back(
        static_cast<float>(is_regression ? one.squared_errors : one.cross_entropy));
  }
  return sorted;
}

// The sums of some replicates. Arrays have one element per replicate.
struct Sums {
  using Array = std::array<double, kTogether>;
  Array weight{};
  Array labels{};
  Array squared_labels{};
  Array predicted{};
  Array losses{};
  Array wins{};  // Twice the weight of pairs in the right order, a tie counting half.
  // Weights of rows with lower predictions, and of rows with the present one.
  Array negatives{};
  Array tied_positives{};
  Array tied_negatives{};

  void CloseTies() {
    for (size_t r = 0; r < kTogether; ++r) {
      wins[r] += tied_positives[r] * (2 * negatives[r] + tied_negatives[r]);
      negatives[r] += tied_negatives[r];
      tied_positives[r] = tied_negatives[r] = 0;
    }
  }
};

bool HasEnough(const std::vector<uint64_t>& units) {
  std::set<uint64_t> seen;
  return std::ranges::any_of(units, [&](uint64_t unit) {
    seen.insert(unit);
    return seen.size() == Bootstrap::kFewestUnits;
  });
}

double EntropyOf(double share) {
  if (share <= 0 || share >= 1) return 0;
  return -(share * std::log(share) + (1 - share) * std::log1p(-share));
}

Sums SumsOf(const Sorted& rows, size_t block, const std::vector<uint8_t>& poisson) {
  Sums sums;
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    if (row > 0 && rows.predictions[row] != rows.predictions[row - 1]) sums.CloseTies();
    const double label = rows.labels[row];
    const double prediction = rows.predictions[row];
    const double loss = rows.losses[row];
    for (size_t h = 0; h < kTogether / kDrawsOfHash; ++h) {
      uint64_t draws = Mix64(rows.units[row] +
                             (block * (kTogether / kDrawsOfHash) + h + 1) * Random::kIncrement);
      for (size_t i = 0; i < kDrawsOfHash; ++i, draws >>= 16) {
        const size_t r = h * kDrawsOfHash + i;
        const double weight = poisson[draws & 0xffff] * double{rows.weights[row]};
        sums.weight[r] += weight;
        sums.labels[r] += weight * label;
        sums.squared_labels[r] += weight * label * label;
        sums.predicted[r] += weight * prediction;
        sums.losses[r] += weight * loss;
        sums.tied_positives[r] += weight * label;
        sums.tied_negatives[r] += weight * (1 - label);
      }
    }
  }
  sums.CloseTies();
  return sums;
}

Metrics MetricsOfSums(const Sums& sums, size_t r, bool is_regression) {
  const double weight = sums.weight[r];
  const double mean = sums.labels[r] / weight;
  Metrics metrics{kNaN, kNaN, kNaN, kNaN, kNaN, sums.predicted[r] / sums.labels[r]};
  if (!std::isfinite(metrics.calibration)) metrics.calibration = kNaN;
  if (is_regression) {
    metrics.rmse = std::sqrt(sums.losses[r] / weight);
    metrics.constant_rmse = std::sqrt(std::max(0.0, sums.squared_labels[r] / weight - mean * mean));
    return metrics;
  }
  metrics.log_loss = sums.losses[r] / weight;
  metrics.constant_log_loss = EntropyOf(mean);
  const double pairs = 2 * sums.labels[r] * (weight - sums.labels[r]);
  metrics.auc = pairs > 0 ? sums.wins[r] / pairs : kNaN;
  return metrics;
}

}  // namespace

Metrics MetricsOf(const PredictionSums& sums, LossConfig::Kind kind) {
  Metrics metrics{kNaN, kNaN, kNaN, kNaN, kNaN, sums.calibration()};
  if (!std::isfinite(metrics.calibration)) metrics.calibration = kNaN;
  if (IsRegression(kind)) {
    metrics.rmse = sums.rmse();
    metrics.constant_rmse = sums.constant_rmse();
    return metrics;
  }
  metrics.log_loss = sums.log_loss();
  metrics.constant_log_loss = EntropyOf(sums.labels / sums.weight);
  return metrics;
}

Metrics MetricsOf(const LabelledRows& rows, LossConfig::Kind kind) {
  PredictionSums sums;
  for (size_t row = 0; row < rows.size(); ++row) {
    sums.Add({.kind = kind}, rows.labels[row], rows.predictions[row], rows.weights[row]);
  }
  Metrics metrics = MetricsOf(sums, kind);
  if (!IsRegression(kind)) metrics.auc = ExactAuc(rows.labels, rows.predictions, rows.weights);
  return metrics;
}

Bootstrap::Bootstrap(const LabelledRows& rows, LossConfig::Kind kind) : kind_(kind) {
  static_assert(kReplicates % kTogether == 0);
  if (!HasEnough(rows.units)) return;
  replicates_.resize(kReplicates);
  const bool is_regression = IsRegression(kind);
  const std::vector<uint8_t> poisson = PoissonTable();
  const Sorted sorted = SortedRows(rows, is_regression);
  const auto compute = [&](size_t first) {
    constexpr size_t kThreads = 2;
    for (size_t block = first; block < kReplicates / kTogether; block += kThreads) {
      const Sums sums = SumsOf(sorted, block, poisson);
      for (size_t r = 0; r < kTogether; ++r) {
        replicates_[block * kTogether + r] = MetricsOfSums(sums, r, is_regression);
      }
    }
  };
  std::jthread other(compute, 1);
  compute(0);
}

namespace {

MetricIntervals IntervalsOf(size_t count, LossConfig::Kind kind,
                            const std::function<double(size_t, double Metrics::*)>& value) {
  const auto interval = [&](const std::function<double(size_t)>& of) {
    std::vector<double> values;
    for (size_t r = 0; r < count; ++r) values.push_back(of(r));
    return PercentileInterval(std::move(values));
  };
  const auto of = [&](double Metrics::* metric) {
    return interval([&](size_t r) { return value(r, metric); });
  };
  const bool is_regression = IsRegression(kind);
  return {.auc = of(&Metrics::auc),
          .log_loss = of(&Metrics::log_loss),
          .rmse = of(&Metrics::rmse),
          .calibration = of(&Metrics::calibration),
          .gain = interval([&](size_t r) {
            return is_regression
                       ? value(r, &Metrics::constant_rmse) - value(r, &Metrics::rmse)
                       : value(r, &Metrics::constant_log_loss) - value(r, &Metrics::log_loss);
          })};
}

}  // namespace

MetricIntervals Bootstrap::Intervals() const {
  return IntervalsOf(replicates_.size(), kind_,
                     [this](size_t r, double Metrics::* metric) { return replicates_[r].*metric; });
}

MetricIntervals Bootstrap::Differences(const Bootstrap& other) const {
  return IntervalsOf(replicates_.size(), kind_, [&](size_t r, double Metrics::* metric) {
    return replicates_[r].*metric - other.replicates_[r].*metric;
  });
}

}  // namespace simurgh
