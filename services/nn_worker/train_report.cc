#include "services/nn_worker/train_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "data/guess/telling_column.h"
#include "data/reading/batch_reader.h"
#include "model/file_system.h"

namespace simurgh {
namespace {

const HistogramFamily kStageSeconds("simurgh_nn_stage_seconds",
                                    "Time a step spends waiting for embeddings and computing.",
                                    {"stage"});
const CounterFamily kStepsTotal("simurgh_nn_steps_total", "Training steps.");
const CounterFamily kSkippedStepsTotal(
    "simurgh_nn_skipped_steps_total",
    "Dense steps skipped because the loss or a gradient was not finite on a rank.");
const CounterFamily kSamplesTotal("simurgh_nn_samples_total", "Samples trained on.");
const GaugeFamily kQueuedBatches("simurgh_nn_queued_batches",
                                 "Batches that have been read and are not pulled yet.");
const GaugeFamily kLoss("simurgh_nn_loss", "Mean loss since the last report.");
const GaugeFamily kAuc("simurgh_nn_auc",
                       "AUC of the latest predictions, each made before training on it.");
const GaugeFamily kWindowLoss("simurgh_nn_window_loss",
                              "Mean loss of the latest predictions, each made before its step.");
const GaugeFamily kWindowCalibration(
    "simurgh_nn_window_calibration",
    "Mean of the latest predictions over the mean of their labels.");
const GaugeFamily kRmse("simurgh_nn_rmse",
                        "Root mean squared error since the last report, of predictions "
                        "made before training on them; labels of numbers.");
const GaugeFamily kValidationAuc("simurgh_nn_validation_auc", "AUC of the last validation.");
const GaugeFamily kValidationLogLoss("simurgh_nn_validation_log_loss",
                                     "Log loss of the last validation.");
const GaugeFamily kValidationRmse(
    "simurgh_nn_validation_rmse",
    "Root mean squared error of the last validation; labels of numbers.");
const GaugeFamily kValidationNdcg("simurgh_nn_validation_ndcg",
                                  "NDCG@20 of the last validation; models of two towers.");
const HistogramFamily kStalenessSteps(
    "simurgh_nn_staleness_steps",
    "Earlier steps of this rank that were unacknowledged at a batch's pull.");
const HistogramFamily kDenseStalenessPushes(
    "simurgh_nn_dense_staleness_pushes",
    "Mode async: dense pushes of all ranks between the weights of a push and itself.");
const HistogramFamily kCheckpointWaitSeconds("simurgh_nn_checkpoint_wait_seconds",
                                             "Time that training waited for a checkpoint.");
const GaugeFamily kTaskAuc(
    "simurgh_nn_task_auc",
    "AUC of the latest predictions of one label, each made before training on it.", {"task"});
const GaugeFamily kTaskRmse("simurgh_nn_task_rmse",
                            "Root mean squared error of one label since the last report, of "
                            "predictions made before training on them.",
                            {"task"});

// Returns metrics with all digits of a double: logs of two runs show whether they are equal to the
// bit.
std::string MetricsText(const EvaluationResult& result) {
  if (result.ranking) {
    std::string text = fmt::format("items={} unknown_items={}", result.ranking->items,
                                   result.ranking->unknown_items);
    for (const auto& [metric, value] : ReportedMetrics(result)) {
      text += fmt::format(" {}={:.17g}", metric, value);
    }
    return text;
  }
  if (IsRegression(result.loss_kind)) {
    return fmt::format("rmse={:.17g} constant_rmse={:.6g} loss={:.17g} calibration={:.4f}",
                       result.rmse, result.constant_rmse, result.loss, result.calibration);
  }
  std::string text =
      fmt::format("auc={} log_loss={:.17g} calibration={:.4f} normalized_entropy={}",
                  std::isnan(result.auc) ? "undefined" : fmt::format("{:.17g}", result.auc),
                  result.log_loss, result.calibration, MetricText(result.normalized_entropy));
  if (!std::isnan(result.group_auc)) text += fmt::format(" group_auc={:.4f}", result.group_auc);
  if (result.loss_kind != LossConfig::Kind::kBce) text += fmt::format(" loss={:.17g}", result.loss);
  return text;
}

std::string ProgressText(const TrainObserver::Progress::Metrics& metrics) {
  if (!std::isnan(metrics.rmse)) return fmt::format("rmse={:.6g}", metrics.rmse);
  return fmt::format("auc={}", MetricText(metrics.auc));
}

}  // namespace

std::string MetricText(double value) {
  return std::isnan(value) ? "undefined" : fmt::format("{:.4f}", value);
}

std::string WindowText(const TrainObserver::Window& window) {
  return fmt::format("window_auc={} window_loss={} window_calibration={} window_samples={}",
                     MetricText(window.auc), MetricText(window.loss),
                     MetricText(window.calibration), window.samples);
}

std::string CalibrationText(const EvaluationResult& result, const std::vector<Calibration>& used) {
  const std::vector<EvaluationResult> labels =
      result.tasks.empty() ? std::vector{result} : result.tasks;
  bool is_any_fitted = false;
  bool is_any_new = false;
  for (size_t label = 0; label < labels.size(); ++label) {
    if (!labels[label].fitted) continue;
    const FittedCalibration& fitted = *labels[label].fitted;
    const Calibration of_model = used.empty() ? Calibration() : used[label];
    is_any_fitted = true;
    is_any_new = is_any_new || (fitted.problem.empty() && of_model == fitted.calibration);
  }
  if (!is_any_fitted) return "";
  return is_any_new ? " calibration=new" : " calibration=old";
}

std::string TestResult(const EvaluationResult& result, const std::vector<std::string>& labels,
                       const std::string& what) {
  const auto describe = [&what](const EvaluationResult& one, bool is_last) {
    // The last line of a binary label is short.
    const bool is_short = is_last && one.loss_kind == LossConfig::Kind::kBce;
    std::string all;
    if (one.loss_kind != LossConfig::Kind::kBce) {
      all = fmt::format("loss={} ", NameOf(one.loss_kind));
    }
    for (const auto& [metric, value] : ReportedMetrics(one)) {
      if (is_short && metric == "calibration") continue;
      // Labels that are numbers can have any scale.
      const bool is_scaled = IsRegression(one.loss_kind) && !one.ranking && metric != "calibration";
      all += fmt::format("{}_{}={} ", what, metric,
                         is_scaled ? fmt::format("{:.6g}", value) : MetricText(value));
      if (metric == "rmse") all += fmt::format("{}_constant_rmse={:.6g} ", what, one.constant_rmse);
    }
    all.pop_back();
    return all;
  };
  std::string text;
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    text += fmt::format("label={} {}\n", labels[task], describe(result.tasks[task], false));
  }
  return text + describe(result, true);
}

std::vector<std::string> TestWarnings(const EvaluationResult& result, const ClusterConfig& config) {
  constexpr double kTooGood = 0.995;
  constexpr double kTooSmall = 0.1;  // Share of a constant's RMSE.
  std::vector<std::string> warnings;
  if (result.ranking && result.ranking->unknown_items > 0) {
    warnings.push_back(
        fmt::format("{} relevant items of the test are not in the files of data.items, and count "
                    "as not found. Add them to the files",
                    result.ranking->unknown_items));
  }
  if (result.ranking && result.ranking->compared().recall < result.ranking->popular_recall) {
    warnings.push_back(fmt::format(
        "the test's recall@{} is {:.4f}. The items that training has most often, the "
        "same for every user, give {:.4f}. Train for more epochs, or with columns that "
        "tell more",
        kComparedItems, result.ranking->compared().recall, result.ranking->popular_recall));
  }
  for (const auto& [column, share] : UnseenColumns(result, config)) {
    warnings.push_back(fmt::format(
        "{:.0f} % of the test rows have ids of '{}' that training has not seen. Check that the "
        "training data has the column in the same form, or leave it out. New ids are normal in a "
        "split by time",
        100 * share, column));
  }
  const auto check = [&](const EvaluationResult& one, const std::string& label) {
    const bool is_number = IsRegression(one.loss_kind);
    if (is_number ? !(one.rmse < kTooSmall * one.constant_rmse) : !(one.auc > kTooGood)) return;
    const std::string value = is_number
                                  ? fmt::format("RMSE of '{}' is {:.4g}, that of a constant {:.4g}",
                                                label, one.rmse, one.constant_rmse)
                                  : fmt::format("AUC of '{}' is {:.4f}", label, one.auc);
    std::string warning = fmt::format(
        "the test {}, as if a column contained the label. Leave columns out "
        "that are known only with the label",
        value);
    if (const auto column = FindTellingColumn(config.data, label)) {
      warning += fmt::format(
          ", such as '{}'. It alone predicts the label with a loss of {:.4f}, "
          "where a constant has {:.4f}",
          column->name, column->loss, column->constant);
    }
    warnings.push_back(std::move(warning));
  };
  const std::vector<std::string> labels = LabelColumns(config.data);
  if (result.tasks.empty()) check(result, labels.front());
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    check(result.tasks[task], labels[task]);
  }
  return warnings;
}

std::string NothingTrained(const ClusterConfig& config, const TrainResult& result) {
  const TrainingConfig& training = config.training;
  std::string reason;
  std::string remedy;
  if (result.stopped_early) {
    reason =
        fmt::format("training.early_stopping has ended this training at step {}", result.steps);
  } else if (training.max_steps > 0 && result.steps >= training.max_steps) {
    reason = fmt::format("training.max_steps: {} is reached", training.max_steps);
    remedy = "more training.max_steps, ";
  } else if (config.data.streams()) {
    reason = "the topics have no full batch of new records";
  } else {
    reason =
        fmt::format("training.epochs: {} are trained, {} steps", training.epochs, result.steps);
    remedy = "more training.epochs, new files at the end of data.train, ";
  }
  const std::string& folder = config.checkpoint.directory;
  std::string folders = folder.empty() ? "MODEL" : ShellWord(folder);
  // Updates compute the network of the configuration.
  const std::string update =
      config.model.is_hosted() ? "" : fmt::format("simurgh update {} --data FILE, ", folders);
  std::string text =
      fmt::format("nothing was trained: {}; to go on, use {}{}or another checkpoint.directory",
                  reason, update, remedy);
  if (folder.empty()) return text;
  // The folder of the first training of `simurgh train --refit`.
  const std::string trial = folder + "-trial";
  if (FileSystem::For(trial).List(trial).ok()) folders += " and " + ShellWord(trial);
  return text + fmt::format(". To train anew with other settings, remove {}", folders);
}

TrainReport::TrainReport(MetricRegistry& registry, std::vector<std::string> tasks,
                         const TrainingConfig& training, bool ranks_items)
    : tasks_(std::move(tasks)),
      is_endless_(training.epochs == 0),
      ranks_items_(ranks_items),
      epochs_(training.epochs),
      max_steps_(static_cast<double>(training.max_steps)),
      course_(training),
      steps_(registry.Get(kStepsTotal)),
      skipped_(registry.Get(kSkippedStepsTotal)),
      samples_(registry.Get(kSamplesTotal)),
      queued_(registry.Get(kQueuedBatches)),
      loss_(registry.Get(kLoss)),
      auc_(registry.Get(kAuc)),
      window_loss_(registry.Get(kWindowLoss)),
      window_calibration_(registry.Get(kWindowCalibration)),
      rmse_(registry.Get(kRmse)),
      validation_auc_(registry.Get(kValidationAuc)),
      validation_log_loss_(registry.Get(kValidationLogLoss)),
      validation_rmse_(registry.Get(kValidationRmse)),
      validation_ndcg_(registry.Get(kValidationNdcg)),
      staleness_(registry.Get(kStalenessSteps, PowersOfTwo(kMaxStaleness))),
      dense_staleness_(registry.Get(kDenseStalenessPushes, PowersOfTwo(kMaxDenseStaleness))),
      wait_seconds_(registry.Get(kStageSeconds, LatencyBuckets(), {"wait"})),
      compute_seconds_(registry.Get(kStageSeconds, LatencyBuckets(), {"compute"})),
      checkpoint_seconds_(registry.Get(kCheckpointWaitSeconds, LatencyBuckets())) {
  if (tasks_.size() == 1) return;
  for (const std::string& task : tasks_) {
    task_gauges_.push_back({registry.Get(kTaskAuc, {task}), registry.Get(kTaskRmse, {task})});
  }
}

void TrainReport::OnStep(const Step& step) {
  if (!first_step_) first_step_ = step.step;
  course_.AddStep(step);
  steps_.Add();
  samples_.Add(step.samples);
  if (!step.applied) {
    skipped_.Add();
    if (const auto suppressed = skipped_log_.Admit(LogLimiter::Clock::now())) {
      spdlog::warn(
          "skipped a step whose loss or gradient is not finite: step={} not_finite_features={} "
          "suppressed={}",
          step.step, step.not_finite_features.empty() ? "none" : step.not_finite_features,
          *suppressed);
    }
  }
  queued_.Set(static_cast<double>(step.queued));
  staleness_.Observe(static_cast<double>(step.staleness));
  wait_seconds_.Observe(step.waited);
  compute_seconds_.Observe(step.computed);
}

void TrainReport::OnDensePush(uint64_t gap) { dense_staleness_.Observe(static_cast<double>(gap)); }

double TrainReport::DoneOf(const Progress& progress) {
  const auto rows = static_cast<double>(progress.data.rows);
  const auto row = static_cast<double>(progress.data.next.row);
  if (rows > 0 && row / rows > rows_part_) {
    rows_ = rows;
    rows_part_ = row / rows;
  }
  const double by_steps = max_steps_ > 0 ? static_cast<double>(progress.steps) / max_steps_ : 0;
  const double by_rows = rows_ > 0 && epochs_ > 0
                             ? (progress.data.next.epoch + std::min(row / rows_, 1.0)) / epochs_
                             : 0;
  return std::min(std::max(by_steps, by_rows), 1.0);  // The limit reached first ends training.
}

void TrainReport::OnProgress(const Progress& progress) {
  if (history_ != nullptr) history_->Add(progress);
  loss_.Set(progress.loss);
  auc_.Set(progress.metrics.auc);
  rmse_.Set(progress.metrics.rmse);
  window_loss_.Set(progress.window.loss);
  window_calibration_.Set(progress.window.calibration);
  std::string rest;
  if (is_endless_) rest = fmt::format(" {}", WindowText(progress.window));
  // Right after the first step, the part that is done gives no estimate.
  constexpr double kLeastDone = 0.001;
  if (const double done = DoneOf(progress); done > kLeastDone) {
    const auto steps = static_cast<double>(progress.steps);
    const double own = steps - static_cast<double>(first_step_.value_or(0));
    rest = fmt::format(" of_steps={:.0f} seconds_left={:.0f}", steps / done,
                       progress.seconds / own * (steps / done - steps));
  }
  spdlog::info(
      "progress: step={} samples={} loss={:.4f}{} samples_per_s={:.0f} staleness={:.1f} "
      "ranks_staleness={:.1f}{} skipped_steps={}{}",
      progress.steps, progress.samples, progress.loss,
      ranks_items_ ? "" : " " + ProgressText(progress.metrics), progress.samples_per_second,
      progress.staleness, progress.ranks_staleness,
      progress.dense_staleness ? fmt::format(" dense_staleness={:.1f}", *progress.dense_staleness)
                               : std::string(),
      progress.skipped_steps, rest);
  for (size_t task = 0; task < progress.tasks.size(); ++task) {
    task_gauges_[task].auc.Set(progress.tasks[task].auc);
    task_gauges_[task].rmse.Set(progress.tasks[task].rmse);
    spdlog::info("progress: step={} label={} {}", progress.steps, tasks_[task],
                 ProgressText(progress.tasks[task]));
  }
}

void TrainReport::OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) {
  const bool is_test = set == EvaluationSet::kTest;
  if (history_ != nullptr) history_->Add(step, set, result);
  if (!is_test) {
    if (result.ranking) validation_ndcg_.Set(result.ranking->compared().ndcg);
    validation_auc_.Set(result.auc);
    validation_log_loss_.Set(result.log_loss);
    validation_rmse_.Set(result.rmse);
    course_.AddEvaluation(step, result);
  }
  const char* const event = is_test ? "evaluated" : "validated";
  spdlog::info("{}: step={} samples={} {}", event, step, result.samples, MetricsText(result));
  const char* const name = is_test ? "data.test" : "data.validation";
  if (result.tasks.empty()) {
    ReportFit(step, set, tasks_.front(), result);
    WarnOfOneClass(name, tasks_.front(), result);
  }
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    const EvaluationResult& own = result.tasks[task];
    spdlog::info("{}: step={} label={} {}", event, step, tasks_[task], MetricsText(own));
    ReportFit(step, set, tasks_[task], own);
    WarnOfOneClass(name, tasks_[task], own);
  }
}

void TrainReport::ReportFit(uint64_t step, EvaluationSet set, const std::string& label,
                            const EvaluationResult& result) {
  if (!result.fitted) return;
  const auto& [calibration, log_loss, problem] = *result.fitted;
  if (problem.empty()) {
    spdlog::info("calibrated: step={} label={} low={:.6g} high={:.6g} shift={:.6g} log_loss={:.6g}",
                 step, label, calibration.low, calibration.high, calibration.shift, log_loss);
  } else if (set == EvaluationSet::kTest) {  // Only an update fits on test rows.
    spdlog::info("the calibration stays: step={} label={} reason=\"{}\"", step, label, problem);
  } else {
    spdlog::warn("the probabilities are not calibrated: step={} label={} reason=\"{}\"", step,
                 label, problem);
  }
}

void TrainReport::WarnOfOneClass(const char* set, const std::string& label,
                                 const EvaluationResult& result) {
  if (IsRegression(result.loss_kind)) return;
  if (0 < result.positives && result.positives < result.samples) return;
  spdlog::warn(
      "{} has one class only, so the AUC is undefined; check the label column and its texts: "
      "label={} samples={} positives={}",
      set, label, result.samples, result.positives);
}

}  // namespace simurgh
