#include "services/nn_worker/train_report.h"

#include <cmath>

#include <spdlog/spdlog.h>

namespace simurgh {
namespace {

constexpr uint64_t kMaxStaleness = 64;
constexpr uint64_t kMaxRanksStaleness = 1'024;

Histogram& StageSeconds(MetricRegistry& registry, const char* stage) {
  return registry.GetHistogram("simurgh_nn_stage_seconds",
                               "Time a step spends waiting for embeddings and computing.",
                               LatencyBuckets(), {{"stage", stage}});
}

}  // namespace

TrainReport::EvaluationGauges::EvaluationGauges(MetricRegistry& registry, const std::string& set)
    : auc(registry.GetGauge("simurgh_nn_" + set + "_auc", "AUC of the last evaluation.")),
      log_loss(
          registry.GetGauge("simurgh_nn_" + set + "_log_loss", "Log loss of the last evaluation.")),
      calibration(
          registry.GetGauge("simurgh_nn_" + set + "_calibration",
                            "Mean prediction over share of positives of the last evaluation.")),
      normalized_entropy(
          registry.GetGauge("simurgh_nn_" + set + "_normalized_entropy",
                            "Log loss over entropy of the labels of the last evaluation.")),
      group_auc(registry.GetGauge("simurgh_nn_" + set + "_group_auc",
                                  "Mean AUC within the groups of the last evaluation.")) {}

TrainReport::TrainReport(MetricRegistry& registry)
    : steps_(registry.GetCounter("simurgh_nn_steps_total", "Training steps.")),
      skipped_(registry.GetCounter("simurgh_nn_skipped_steps_total",
                                   "Steps left out because loss or a gradient was not finite.")),
      samples_(registry.GetCounter("simurgh_nn_samples_total", "Samples trained on.")),
      loss_(registry.GetGauge("simurgh_nn_loss", "Mean loss since the last report.")),
      auc_(registry.GetGauge("simurgh_nn_auc",
                             "AUC of the latest predictions, each made before training on it.")),
      validation_(registry, "validation"),
      test_(registry, "test"),
      staleness_(registry.GetHistogram("simurgh_nn_staleness_steps",
                                       "Earlier steps not yet acknowledged at a batch's pull.",
                                       PowersOfTwo(kMaxStaleness))),
      ranks_staleness_(registry.GetHistogram(
          "simurgh_nn_ranks_staleness_steps",
          "Of all ranks together: earlier steps not yet acknowledged at their pulls of a step.",
          PowersOfTwo(kMaxRanksStaleness))),
      dense_staleness_(registry.GetHistogram(
          "simurgh_nn_dense_staleness_pushes",
          "Mode async: dense pushes of all ranks between the weights of a push and itself.",
          PowersOfTwo(kMaxRanksStaleness))),
      wait_seconds_(StageSeconds(registry, "wait")),
      compute_seconds_(StageSeconds(registry, "compute")) {}

void TrainReport::OnStep(const Step& step) {
  steps_.Add();
  samples_.Add(step.samples);
  if (!step.applied) {
    skipped_.Add();
    spdlog::warn("step {}: loss or a gradient is not finite; the step is left out", step.step);
  }
  staleness_.Observe(static_cast<double>(step.staleness));
  ranks_staleness_.Observe(static_cast<double>(step.ranks_staleness));
  wait_seconds_.Observe(step.waited);
  compute_seconds_.Observe(step.computed);
}

void TrainReport::OnDensePush(uint64_t gap) { dense_staleness_.Observe(static_cast<double>(gap)); }

void TrainReport::OnProgress(const Progress& progress) {
  loss_.Set(progress.loss);
  auc_.Set(progress.auc);
  spdlog::info(
      "step {}: {} samples, loss {:.4f}, auc {:.4f}, {:.0f} samples/s, staleness {:.1f}, of all "
      "ranks {:.1f}{}{}",
      progress.steps, progress.samples, progress.loss, progress.auc, progress.samples_per_second,
      progress.staleness, progress.ranks_staleness,
      progress.dense_staleness ? fmt::format(", dense {:.1f}", *progress.dense_staleness)
                               : std::string(),
      progress.skipped_steps == 0 ? std::string()
                                  : fmt::format(", {} steps skipped", progress.skipped_steps));
}

void TrainReport::OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) {
  const bool is_test = set == EvaluationSet::kTest;
  const EvaluationGauges& gauges = is_test ? test_ : validation_;
  gauges.auc.Set(result.auc);
  gauges.log_loss.Set(result.log_loss);
  gauges.calibration.Set(result.calibration);
  gauges.normalized_entropy.Set(result.normalized_entropy);
  gauges.group_auc.Set(result.group_auc);
  // All digits of a double: two runs can be compared to the last bit.
  spdlog::info(
      "step {}: {} {} samples: auc {:.17g}, log loss {:.17g}, calibration {:.4f}, normalized "
      "entropy {:.4f}{}",
      step, is_test ? "evaluated" : "validated", result.samples, result.auc, result.log_loss,
      result.calibration, result.normalized_entropy,
      std::isnan(result.group_auc) ? std::string()
                                   : fmt::format(", group auc {:.4f}", result.group_auc));
}

}  // namespace simurgh
