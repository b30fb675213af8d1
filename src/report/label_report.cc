#include "report/label_report.h"

namespace simurgh {

LabelReport MakeLabelReport(const TaskConfig& task, const PredictionSums& sums,
                            const LabelledRows& rows, const Bootstrap& bootstrap) {
  LabelReport report{.label = task.label,
                     .kind = task.loss.kind,
                     .rows = static_cast<uint64_t>(sums.samples),
                     .positives = static_cast<uint64_t>(sums.positives),
                     .mean_label = sums.labels / sums.weight,
                     .mean_prediction = sums.predicted / sums.weight,
                     .metrics = MetricsOf(sums, task.loss.kind),
                     .intervals = bootstrap.Intervals(),
                     .deciles = DecilesOf(rows, !IsRegression(task.loss.kind)),
                     .curves = {},
                     .scores = {},
                     .residuals = {}};
  if (report.is_regression()) {
    report.residuals = ResidualsOf(rows);
    return report;
  }
  report.metrics.auc = ExactAuc(rows.labels, rows.predictions, rows.weights);
  report.curves = CurvesOf(rows);
  report.scores = ScoresByLabel(rows);
  return report;
}

PredictionSummary SummaryOf(const std::string& label, const PredictedSample& sample, size_t index) {
  LabelledRows rows;
  PredictionSummary summary{.label = label, .percentiles = {}, .histogram = {}};
  for (size_t row = 0; row < sample.rows(); ++row) {
    rows.labels.push_back(1);
    rows.predictions.push_back(sample.predictions[row * sample.label_count + index]);
    rows.weights.push_back(1);
    summary.mean += rows.predictions.back();
  }
  summary.mean /= static_cast<double>(sample.rows());
  summary.percentiles = PercentilesOf(rows.predictions);
  summary.histogram = ScoresByLabel(rows);
  summary.histogram.second.clear();
  return summary;
}

}  // namespace simurgh
