#include "services/nn_worker/train_report.h"

#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

namespace simurgh {
namespace {

// As many batches as forward buffers may hold in `async`, and those of many ranks.
constexpr uint64_t kMaxStaleness = 1'024;
constexpr uint64_t kMaxRanksStaleness = 65'536;

Histogram& StageSeconds(MetricRegistry& registry, const char* stage) {
  return registry.GetHistogram("simurgh_nn_stage_seconds",
                               "Time a step spends waiting for embeddings and computing.",
                               LatencyBuckets(), {{"stage", stage}});
}

std::string GroupAucText(const EvaluationResult& result) {
  if (std::isnan(result.group_auc)) return {};
  return fmt::format(", group auc {:.4f}", result.group_auc);
}

std::string IfKnown(const char* name, const std::optional<double>& mean) {
  return mean ? fmt::format("{} {:.1f}", name, *mean) : std::string();
}

}  // namespace

TrainReport::EvaluationGauges::EvaluationGauges(MetricRegistry& registry, const std::string& set,
                                                const MetricLabels& labels)
    : auc(registry.GetGauge("simurgh_nn_" + set + "_auc", "AUC of the last evaluation.", labels)),
      log_loss(registry.GetGauge("simurgh_nn_" + set + "_log_loss",
                                 "Log loss of the last evaluation.", labels)),
      calibration(registry.GetGauge(
          "simurgh_nn_" + set + "_calibration",
          "Mean prediction over share of positives of the last evaluation.", labels)),
      normalized_entropy(
          registry.GetGauge("simurgh_nn_" + set + "_normalized_entropy",
                            "Log loss over entropy of the labels of the last evaluation.", labels)),
      group_auc(registry.GetGauge("simurgh_nn_" + set + "_group_auc",
                                  "Mean AUC within the groups of the last evaluation.", labels)) {}

void TrainReport::EvaluationGauges::Set(const EvaluationResult& result) const {
  auc.Set(result.auc);
  log_loss.Set(result.log_loss);
  calibration.Set(result.calibration);
  normalized_entropy.Set(result.normalized_entropy);
  group_auc.Set(result.group_auc);
}

TrainReport::TrainReport(MetricRegistry& registry, std::vector<std::string> tasks)
    : tasks_(std::move(tasks)),
      steps_(registry.GetCounter("simurgh_nn_steps_total", "Training steps.")),
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
      ranks_staleness_(registry.GetHistogram("simurgh_nn_ranks_staleness_steps",
                                             "Sum over the ranks: earlier steps of each not yet "
                                             "acknowledged at its pull.",
                                             PowersOfTwo(kMaxRanksStaleness))),
      dense_staleness_(registry.GetHistogram(
          "simurgh_nn_dense_staleness_pushes",
          "Mode async: dense pushes of all ranks between the weights of a push and itself.",
          PowersOfTwo(kMaxRanksStaleness))),
      wait_seconds_(StageSeconds(registry, "wait")),
      compute_seconds_(StageSeconds(registry, "compute")) {
  if (tasks_.size() == 1) return;
  for (const std::string& task : tasks_) {
    const MetricLabels labels = {{"task", task}};
    task_gauges_.push_back(
        {registry.GetGauge("simurgh_nn_task_auc",
                           "AUC of the latest predictions of one label, before training on them.",
                           labels),
         EvaluationGauges(registry, "task_validation", labels),
         EvaluationGauges(registry, "task_test", labels)});
  }
}

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
      progress.staleness, progress.ranks_staleness, IfKnown(", dense", progress.dense_staleness),
      progress.skipped_steps == 0 ? std::string()
                                  : fmt::format(", {} steps skipped", progress.skipped_steps));
  for (size_t task = 0; task < progress.task_aucs.size(); ++task) {
    task_gauges_[task].auc.Set(progress.task_aucs[task]);
    spdlog::info("step {}: label '{}': auc {:.4f}", progress.steps, tasks_[task],
                 progress.task_aucs[task]);
  }
}

void TrainReport::OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) {
  const bool is_test = set == EvaluationSet::kTest;
  (is_test ? test_ : validation_).Set(result);
  // All digits of a double: two runs can be compared to the last bit.
  spdlog::info(
      "step {}: {} {} samples: auc {:.17g}, log loss {:.17g}, calibration {:.4f}, normalized "
      "entropy {:.4f}{}",
      step, is_test ? "evaluated" : "validated", result.samples, result.auc, result.log_loss,
      result.calibration, result.normalized_entropy, GroupAucText(result));
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    const EvaluationResult& own = result.tasks[task];
    (is_test ? task_gauges_[task].test : task_gauges_[task].validation).Set(own);
    spdlog::info(
        "step {}: label '{}': auc {:.17g}, log loss {:.17g}, calibration {:.4f}, normalized "
        "entropy {:.4f}{}",
        step, tasks_[task], own.auc, own.log_loss, own.calibration, own.normalized_entropy,
        GroupAucText(own));
  }
}

}  // namespace simurgh
