#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "nn/metrics.h"
#include "report/bootstrap.h"
#include "report/curves.h"
#include "report/labelled_rows.h"

namespace simurgh {

// How well a model predicts one label of an input.
struct LabelReport {
  std::string label;
  LossConfig::Kind kind = LossConfig::Kind::kBce;
  uint64_t rows = 0;       // Rows that have the label.
  uint64_t positives = 0;  // Rows with label 1.
  double mean_label = 0;   // Means are weighted.
  double mean_prediction = 0;
  // Metrics of all rows but the AUC, which is that of the sample.
  Metrics metrics;
  MetricIntervals intervals;
  std::vector<PredictionBin> deciles;
  RankingCurves curves;                // Empty for a label of numbers.
  BinnedCounts scores;                 // Empty for a label of numbers.
  std::optional<Residuals> residuals;  // None for a binary label.

  bool is_regression() const { return IsRegression(kind); }
  // Returns the loss, and that of a constant: log loss, or RMSE.
  double loss() const { return is_regression() ? metrics.rmse : metrics.log_loss; }
  double constant_loss() const {
    return is_regression() ? metrics.constant_rmse : metrics.constant_log_loss;
  }
};

// Predictions of a label that the rows do not have.
struct PredictionSummary {
  std::string label;
  double mean = 0;
  std::vector<double> percentiles;  // 1, 5, 25, 50, 75, 95 and 99.
  BinnedCounts histogram;
};
PredictionSummary SummaryOf(const std::string& label, const PredictedSample& sample, size_t index);

// sums: of all rows. rows: those of the sample. Requires rows.
LabelReport MakeLabelReport(const TaskConfig& task, const PredictionSums& sums,
                            const LabelledRows& rows, const Bootstrap& bootstrap);

}  // namespace simurgh
