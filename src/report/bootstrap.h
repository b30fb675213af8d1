#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/model_config.h"
#include "nn/metrics.h"
#include "report/interval.h"
#include "report/labelled_rows.h"

namespace simurgh {

// Metrics of predictions of one label; see PredictionSums. NaN where the label has another kind.
struct Metrics {
  double auc = 0;
  double log_loss = 0;
  double constant_log_loss = 0;  // Log loss of the share of positives for every row.
  double rmse = 0;
  double constant_rmse = 0;  // RMSE of the mean label for every row.
  double calibration = 0;    // Mean prediction over the mean label.
};

// One interval for each of Metrics, but those of constants.
struct MetricIntervals {
  Interval auc;
  Interval log_loss;
  Interval rmse;
  Interval calibration;
  Interval gain;  // Constant's log loss, or RMSE, less that of the predictions.
};

// Returns the metrics that sums over rows have; the AUC is NaN. kind: loss of the label.
Metrics MetricsOf(const PredictionSums& sums, LossConfig::Kind kind);
// Returns the metrics of rows.
Metrics MetricsOf(const LabelledRows& rows, LossConfig::Kind kind);

// Replicates of the Poisson bootstrap: each unit counts as often as a Poisson variable of mean 1
// says. The numbers depend on units and replicate only, so that replicates of two models on the
// same rows are paired. The estimate is right for a sample, too, if its rows are uniform.
//
// Cost: a sort, then 30 ns a row and four replicates. Memory: 40 bytes a row.
// Source: Chamandy, Muralidharan, Najmi, Naidu, "Estimating uncertainty for massive data streams",
// Google, 2012.
class Bootstrap {
 public:
  static constexpr size_t kReplicates = 400;
  // Replicates of fewer units are too much alike: three rows in the right order stay right.
  static constexpr size_t kFewestUnits = 30;

  // Computes the replicates.
  Bootstrap(const LabelledRows& rows, LossConfig::Kind kind);

  // Unknown for fewer than kFewestUnits.
  MetricIntervals Intervals() const;
  // Returns the intervals of these metrics less those of another model, whose rows have the same
  // units.
  MetricIntervals Differences(const Bootstrap& other) const;

 private:
  const LossConfig::Kind kind_;
  std::vector<Metrics> replicates_;  // Empty for fewer than kFewestUnits.
};

}  // namespace simurgh
