#include "report/findings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/text.h"
#include "config/training_config.h"
#include "report/bootstrap.h"
#include "report/html.h"

namespace simurgh {
namespace {

constexpr size_t kMostNamed = 8;  // Columns that a finding names.

// Returns "a of b" with the label's name if there are several.
std::string Of(const Report& report, const LabelReport& label) {
  return report.labels.size() > 1 ? absl::StrCat(" of ", label.label) : "";
}

std::string ValueOf(const Report& report, const std::string& key) {
  const auto found =
      std::ranges::find(report.config, key, &std::pair<std::string, std::string>::first);
  return found == report.config.end() ? "" : found->second;
}

const char* LossName(const LabelReport& label) {
  return label.is_regression() ? "RMSE" : "log loss";
}

// Returns "from a to b", with the digits of a metric.
std::string RangeText(const Interval& interval) {
  return absl::StrCat("from ", NumberText(interval.low), " to ", NumberText(interval.high));
}

std::string Named(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed)));
  const std::string text = absl::StrJoin(shown, ", ");
  return names.size() > kMostNamed
             ? absl::StrCat(text, " and ", names.size() - kMostNamed, " others")
             : text;
}

// What chose the checkpoint: a metric of which more is better, or the loss.
struct Criterion {
  std::string metric;  // Empty: the loss.

  // Returns the evaluation's score; a higher one is better. Minus infinity without one.
  double ScoreOf(const TrainingHistory::Evaluation& evaluation) const {
    const auto found = evaluation.metrics.find(metric);
    const double score = metric.empty()                      ? -evaluation.loss()
                         : found == evaluation.metrics.end() ? std::nan("")
                                                             : found->second;
    return std::isnan(score) ? -HUGE_VAL : score;
  }
  std::string ValueText(const TrainingHistory::Evaluation& evaluation) const {
    return NumberText(metric.empty() ? -ScoreOf(evaluation) : ScoreOf(evaluation));
  }
  // Returns whether the second score is better by more than the noise of a validation.
  bool IsClearlyBetter(double score, double than) const {
    return metric.empty() ? -score < 0.98 * -than : score > than + 0.005;
  }
  bool IsBetter(double score, double than) const {
    return metric.empty() ? -score < 0.995 * -than : score > than + 0.001;
  }
  const char* name() const {
    return metric.empty() ? "loss" : metric == "auc" ? "AUC" : "AUC by group";
  }
};

Criterion ChoosesBy(const Report& report) {
  for (const char* key : {"checkpoint.best_by", "training.early_stopping.metric"}) {
    const std::string metric = ValueOf(report, key);
    if (metric == "auc" || metric == "group_auc") return {metric};
    if (!metric.empty()) return {};
  }
  return {};
}

class Rules {
 public:
  explicit Rules(const Report& report) : report_(report), model_(ShellWord(report.folder)) {}

  std::vector<Finding> Run() {
    for (const LabelReport& label : report_.labels) NoBetter(label);
    Leak();
    Course();
    for (const LabelReport& label : report_.labels) Calibration(label);
    Segments();
    UnseenIds();
    Drift();
    Needless();
    for (const LabelReport& label : report_.labels) FewRows(label);
    Training();
    return std::move(findings_);
  }

 private:
  // Command that trains again; its configuration is not in the model's folder alone.
  static std::string TrainWith(const std::string& setting) {
    return absl::StrCat("simurgh train CONFIG --set ", setting);
  }

  // Returns whether the rows can show how good a model is: they are not few, and have no class
  // alone, of which a constant has no loss.
  static bool TellsEnough(const LabelReport& label) {
    if (label.rows < Bootstrap::kFewestUnits) return false;
    return label.is_regression() || (0 < label.positives && label.positives < label.rows);
  }

  void NoBetter(const LabelReport& label) {
    if (!TellsEnough(label) || !std::isfinite(label.loss())) return;
    const bool is_better = label.loss() < label.constant_loss();
    if (is_better && !(label.intervals.gain.low <= 0)) return;
    findings_.push_back(
        {"no_better",
         absl::StrCat(
             "The predictions", Of(report_, label), " are ",
             is_better ? "not clearly better than a constant." : "no better than a constant."),
         absl::StrFormat("The %s is %s. The %s for every row gives %s. The difference is %s.",
                         LossName(label), NumberText(label.loss()),
                         label.is_regression() ? "mean label" : "share of positives",
                         NumberText(label.constant_loss()), RangeText(label.intervals.gain)),
         "Compare the rows with those of the training, or train with columns that tell more.", ""});
  }

  void Leak() {
    if (!report_.importance || report_.labels.empty()) return;
    const LabelReport& label = report_.labels.front();
    const Importance& importance = *report_.importance;
    const double auc = importance.metrics.front().auc;
    if (label.is_regression() || !(auc >= 0.95) || importance.columns.size() < 2) return;
    const ColumnImportance& first = importance.columns.front();
    const double second = importance.columns[1].effects.front().auc.mean;
    const PermutationEffect& effect = first.effects.front().auc;
    // Without the column the AUC is near that of chance, and no other column comes near to it.
    if (!(effect.interval.low > 0.7 * (auc - 0.5)) || second > 0.2 * effect.mean) return;
    findings_.push_back(
        {"leak",
         absl::StrCat("Nearly all that the model has learned is in ",
                      absl::StrJoin(first.columns, "+"), "."),
         absl::StrFormat("The AUC of %.4f falls by %.4f when its cells are permuted. For the next "
                         "column it falls by %.4f.",
                         auc, effect.mean, second),
         "Check that the column is known when you predict. If it is known only after the label, "
         "leave it out.",
         InitWithout(first.columns)});
  }

  // Command that leaves columns out; they are named as in the files.
  std::string InitWithout(const std::vector<std::string>& columns) const {
    std::vector<std::string> words;
    for (const std::string& column : columns) {
      const auto header = report_.header_names.find(column);
      words.push_back(header == report_.header_names.end() ? column : header->second);
    }
    return absl::StrCat("simurgh init DATA --skip ", ShellWord(absl::StrJoin(words, ",")));
  }

  // The course of the validation.
  void Course() {
    const auto validations = report_.history.EvaluationsOf(/*tests=*/false);
    if (validations.size() < 2) return;
    const Criterion by = ChoosesBy(report_);
    const auto score = [&by](const auto& one) { return by.ScoreOf(one); };
    const auto best = std::ranges::max_element(validations, {}, score);
    const auto& last = validations.back();
    const auto used =
        std::ranges::find(validations, report_.step, &TrainingHistory::Evaluation::step);
    const bool is_trial = !report_.trial.empty();
    if (!is_trial && used != validations.end() && used > best &&
        by.IsClearlyBetter(score(*best), score(*used))) {
      findings_.push_back(
          {"overfit",
           absl::StrFormat("The model has learned its training rows by heart: validation was best "
                           "at step %d.",
                           best->step),
           absl::StrFormat("The validation %s was %s at step %d, and is %s at step %d, which "
                           "predicts.",
                           by.name(), by.ValueText(*best), best->step, by.ValueText(*used),
                           used->step),
           "Let training stop when validation gets no better, and keep the best checkpoint.",
           TrainWith("training.early_stopping.patience=2")});
      return;
    }
    const auto& before = validations[validations.size() - 2];
    const bool has_stopped =
        report_.history.end && (report_.history.end->reason == "early_stopping" ||
                                report_.history.end->reason == "stopped");
    if (has_stopped || best->step != last.step || !by.IsBetter(score(last), score(before))) return;
    double epochs = 0;
    const bool has_epochs = absl::SimpleAtod(ValueOf(report_, "training.epochs"), &epochs);
    findings_.push_back(
        {"more_epochs",
         absl::StrFormat("The validation %s still got better when training ended.", by.name()),
         absl::StrFormat("It went from %s at step %d to %s at step %d, the last one.",
                         by.ValueText(before), before.step, by.ValueText(last), last.step),
         "Train for more epochs.",
         TrainWith(absl::StrCat("training.epochs=",
                                has_epochs && epochs > 0 ? absl::StrCat(2 * epochs) : "N"))});
  }

  void Calibration(const LabelReport& label) {
    constexpr double kMatters = 0.05;
    const double ratio = label.metrics.calibration;
    const Interval& interval = label.intervals.calibration;
    // The mean of numbers can be near 0, or below.
    if (!TellsEnough(label) || label.is_regression() || !interval.is_known() || interval.Holds(1) ||
        !(std::abs(ratio - 1) > kMatters)) {
      return;
    }
    const bool is_high = ratio > 1;
    const bool has_validation = !ValueOf(report_, "data.validation").empty();
    findings_.push_back(
        {is_high ? "too_high" : "too_low",
         absl::StrFormat("Predictions%s are %.1f %% too %s on average.", Of(report_, label),
                         100 * std::abs(ratio - 1), is_high ? "high" : "low"),
         absl::StrFormat("The mean prediction is %s, the share of positives %s. The first over the "
                         "second is %s.",
                         NumberText(label.mean_prediction), NumberText(label.mean_label),
                         RangeText(interval)),
         has_validation ? "An update on new rows gives the model a new calibration."
                        : "With rows of validation, training calibrates its predictions.",
         has_validation ? absl::StrCat("simurgh update ", model_, " --data FILE")
                        : "data.validation: [FILE]"});
  }

  void Segments() {
    struct Off {
      std::string text;
      double errors;
    };
    std::optional<Off> worst;
    for (const SegmentsReport& column : report_.segments) {
      for (const SegmentReport& segment : column.segments) {
        for (size_t i = 0; i < segment.labels.size() && i < report_.labels.size(); ++i) {
          const LabelReport& label = report_.labels[i];
          const SegmentReport::OfLabel& of = segment.labels[i];
          const auto rows = static_cast<double>(of.rows);
          if (label.is_regression() || segment.is_rest || rows < 500 ||
              rows < 0.02 * static_cast<double>(label.rows)) {
            continue;
          }
          // The error of a share that is as predicted. What is off everywhere is no segment's.
          const double expected = of.mean_prediction / label.metrics.calibration;
          const double error = std::sqrt(expected * (1 - expected) / rows);
          const double errors = std::abs(of.mean_label - expected) / error;
          const double ratio = expected / of.mean_label;
          if (!(errors > 4) || (ratio < 1.2 && ratio > 1 / 1.2)) continue;
          if (worst && worst->errors > errors) continue;
          worst = Off{
              absl::StrFormat("%s = %s%s: the mean prediction is %s, the share of "
                              "positives %s, in %d rows.",
                              column.column, segment.name, Of(report_, label),
                              NumberText(of.mean_prediction), NumberText(of.mean_label), of.rows),
              errors};
        }
      }
    }
    if (!worst) return;
    findings_.push_back({"segment", "The predictions of some rows are clearly off.", worst->text,
                         "Check these rows. If they are new, train on newer rows.",
                         absl::StrCat("simurgh update ", model_, " --data FILE")});
  }

  void UnseenIds() {
    constexpr double kMany = 0.1;
    constexpr double kMost = 0.5;
    constexpr uint64_t kFewIds = 100;
    std::vector<std::string> columns;
    std::vector<std::string> shares;
    double highest = 0;
    for (const IdDrift& drift : report_.ids) {
      if (!drift.admits_all || drift.ids < kFewIds || drift.unseen < kMany) continue;
      columns.push_back(drift.column);
      shares.push_back(absl::StrFormat("%s: %.1f %%", drift.column, 100 * drift.unseen));
      highest = std::max(highest, drift.unseen);
    }
    if (columns.empty()) return;
    findings_.push_back(
        {"unseen_ids",
         absl::StrCat("The rows have many ids that training has not seen: ", Named(columns), "."),
         absl::StrCat("Shares of ids without a row in the model: ", Named(shares), "."),
         highest >= kMost ? "Compare how the ids are written with the training data."
                          : "Train on newer rows, so that the model has these ids.",
         highest >= kMost ? "" : absl::StrCat("simurgh update ", model_, " --data FILE")});
  }

  void Drift() {
    constexpr double kFar = 0.5;
    constexpr uint64_t kFewRows = 100;
    if (!report_.input || report_.input->rows < kFewRows) return;
    std::vector<std::string> columns;
    std::vector<std::string> shifts;
    for (const NumberDrift& drift : report_.numbers) {
      if (!drift.is_fitted || !(std::abs(drift.shift()) > kFar)) continue;
      columns.push_back(drift.column);
      shifts.push_back(absl::StrFormat("%s: %+.2f", drift.column, drift.shift()));
    }
    if (columns.empty()) return;
    findings_.push_back(
        {"drift", absl::StrCat("Numbers differ from those of the training: ", Named(columns), "."),
         absl::StrCat(
             "Shifts of the means, in standard deviations of the training: ", Named(shifts), "."),
         "Check units and source of these columns. If they are right, train on newer rows.",
         absl::StrCat("simurgh update ", model_, " --data FILE")});
  }

  void Needless() {
    constexpr size_t kFewRows = 1'000;
    if (!report_.importance || report_.importance->rows < kFewRows) return;
    std::vector<std::string> columns;
    std::vector<std::string> single;  // A group has several.
    size_t all = 0;
    for (const ColumnImportance& column : report_.importance->columns) {
      ++all;
      const bool adds_nothing = std::ranges::all_of(column.effects, [](const auto& effects) {
        const PermutationEffect& loss = effects.loss;
        return std::isnan(loss.mean) || loss.interval.Holds(0) || loss.mean < 0;
      });
      if (!adds_nothing) continue;
      columns.push_back(absl::StrJoin(column.columns, "+"));
      single.insert(single.end(), column.columns.begin(), column.columns.end());
    }
    if (columns.empty() || columns.size() == all) return;
    const bool is_one = columns.size() == 1;
    findings_.push_back(
        {"needless",
         absl::StrCat(is_one ? "A column adds nothing: " : "Columns add nothing: ", Named(columns),
                      "."),
         absl::StrFormat("When %s cells are permuted, the loss does not rise by more than the "
                         "error of %d rows.",
                         is_one ? "its" : "their", report_.importance->rows),
         absl::StrFormat("Leave %s out, and compare the two models by --compare.",
                         is_one ? "it" : "them"),
         InitWithout(single)});
  }

  void FewRows(const LabelReport& label) {
    const Interval& auc = label.intervals.auc;
    const Interval& loss = label.is_regression() ? label.intervals.rmse : label.intervals.log_loss;
    const bool is_wide = (auc.is_known() && auc.high - auc.low > 0.04) ||
                         (loss.is_known() && loss.high - loss.low > 0.1 * label.loss());
    const std::string rows = absl::StrCat(label.rows, label.rows == 1 ? " row" : " rows");
    if (label.rows < Bootstrap::kFewestUnits) {
      findings_.push_back(
          {"few_rows",
           absl::StrCat("The test", Of(report_, label), " has too few rows to judge the model."),
           absl::StrFormat("It has %s. Fewer than %d tell no interval.", rows,
                           Bootstrap::kFewestUnits),
           "Test on more rows.", absl::StrCat("simurgh report ", model_, " --input FILE")});
      return;
    }
    if (!is_wide) return;
    findings_.push_back(
        {"few_rows",
         absl::StrCat("The test", Of(report_, label),
                      " has too few rows to tell small differences."),
         auc.is_known() && auc.high - auc.low > 0.04
             ? absl::StrFormat("With %s the AUC is %s.", rows, RangeText(auc))
             : absl::StrFormat("With %s the %s is %s.", rows, LossName(label), RangeText(loss)),
         "Test on more rows.", absl::StrCat("simurgh report ", model_, " --input FILE")});
  }

  void Training() {
    const TrainingHistory& history = report_.history;
    if (history.progress.empty()) return;
    const TrainingHistory::Progress& last = history.progress.back();
    if (last.skipped_steps > 0) {
      findings_.push_back(
          {"skipped_steps", "Training has skipped steps whose gradients were not finite.",
           absl::StrFormat("%.0f of %d steps were skipped.", last.skipped_steps, last.step),
           "Lower the learning rates, or scale numbers that are very large.", ""});
    }
    double waited = 0;
    double count = 0;
    for (const TrainingHistory::Progress& one : history.progress) {
      if (std::isnan(one.waited)) continue;
      waited += one.waited;
      ++count;
    }
    // The time of a short training does not matter.
    constexpr double kShort = 60;
    if (count < 3 || !(waited / count > 0.4) || last.seconds < kShort) return;
    findings_.push_back(
        {"waiting",
         absl::StrFormat("Training has waited for embeddings for %.0f %% of its time.",
                         100 * waited / count),
         absl::StrFormat("It has trained %.0f samples a second.",
                         last.samples / std::max(last.seconds, 1e-9)),
         "Train with more embedding workers and servers, or with more batches in flight.",
         TrainWith("training.staleness=4")});
  }

  const Report& report_;
  const std::string model_;
  std::vector<Finding> findings_;
};

// Returns the metrics of the last test of a training, in a sentence; empty without a test.
std::string LastTest(const TrainingHistory& history) {
  const auto tests = history.EvaluationsOf(/*tests=*/true);
  if (tests.empty()) return "";
  std::vector<std::string> metrics;
  for (const auto& [key, name] :
       {std::pair("auc", "AUC"), std::pair("logloss", "log loss"), std::pair("rmse", "RMSE")}) {
    const auto found = tests.back().metrics.find(key);
    if (found == tests.back().metrics.end()) continue;
    metrics.push_back(absl::StrCat(name, " ", NumberText(found->second)));
  }
  return metrics.empty() ? ""
                         : absl::StrCat(" The last test of the training had ",
                                        absl::StrJoin(metrics, ", "), ".");
}

// Returns " (95 %: a to b)"; an empty text for an unknown interval.
std::string IntervalText(const Interval& interval) {
  if (!interval.is_known()) return "";
  return absl::StrCat(" (95 %: ", NumberText(interval.low), " to ", NumberText(interval.high), ")");
}

std::string HeadlineOf(const Report& report, const LabelReport& label) {
  const std::string name = report.labels.size() > 1 ? absl::StrCat(label.label, ": ") : "";
  if (std::isnan(label.loss())) {
    return absl::StrCat(name, "No row has this label and a weight above 0.");
  }
  if (label.is_regression()) {
    return absl::StrCat(name, "Predictions are typically off by ", NumberText(label.metrics.rmse),
                        IntervalText(label.intervals.rmse),
                        " (RMSE). The mean for every row would be off by ",
                        NumberText(label.metrics.constant_rmse), ".");
  }
  std::string text = name;
  if (std::isnan(label.metrics.auc)) {
    absl::StrAppend(&text, "All rows have the same label, so there is no AUC. ");
  } else {
    absl::StrAppend(&text, "A row with label 1 is predicted higher than one with label 0 in ",
                    absl::StrFormat("%.1f %%", 100 * label.metrics.auc), " of pairs: the AUC is ",
                    absl::StrFormat("%.4f", label.metrics.auc), IntervalText(label.intervals.auc),
                    ". ");
  }
  absl::StrAppend(&text, absl::StrFormat("The log loss is %.4f", label.metrics.log_loss),
                  IntervalText(label.intervals.log_loss));
  if (label.metrics.constant_log_loss > 0) {
    const double gain = 1 - label.metrics.log_loss / label.metrics.constant_log_loss;
    absl::StrAppend(&text,
                    absl::StrFormat(", %.1f %% %s that of a constant, %.4f", 100 * std::abs(gain),
                                    gain > 0 ? "below" : "above", label.metrics.constant_log_loss));
  }
  return text + ".";
}

}  // namespace

std::string HeadlineOf(const Report& report) {
  if (report.ranking) {
    const std::string recall = absl::StrCat("recall@", kComparedItems);
    const RankingReport::Metric& metric = report.ranking->metric(recall);
    std::string text = absl::StrCat(
        "Of a user's items, ", absl::StrFormat("%.1f %%", 100 * metric.value),
        " are among the first ", kComparedItems, " of ", report.ranking->items, ": ", recall,
        " is ", absl::StrFormat("%.4f", metric.value), IntervalText(metric.interval), ".");
    if (!std::isnan(report.ranking->popular_recall)) {
      absl::StrAppendFormat(&text, " The most popular items, the same for every user, give %.4f.",
                            report.ranking->popular_recall);
    }
    return text;
  }
  if (report.labels.empty()) {
    return absl::StrCat(report.input ? "The rows have no labels" : "No rows were predicted",
                        ", so the page does not say how good the predictions are.",
                        LastTest(report.history));
  }
  std::vector<std::string> all;
  for (const LabelReport& label : report.labels) all.push_back(HeadlineOf(report, label));
  return absl::StrJoin(all, " ");
}

std::string CourseOf(const Report& report) {
  const auto validations = report.history.EvaluationsOf(/*tests=*/false);
  if (report.history.empty()) return "";
  if (validations.empty()) {
    return "Training had no validation rows, so it does not show whether the model has learned its "
           "rows by heart.";
  }
  const Criterion by = ChoosesBy(report);
  const auto score = [&by](const auto& one) { return by.ScoreOf(one); };
  const auto best = std::ranges::max_element(validations, {}, score);
  const auto& last = validations.back();
  const bool is_trial = !report.trial.empty();
  const auto used =
      is_trial ? best
               : std::ranges::find(validations, report.step, &TrainingHistory::Evaluation::step);
  std::string text = absl::StrFormat("The validation %s was best at step %d, %s", by.name(),
                                     best->step, by.ValueText(*best));
  if (best->step != last.step) {
    absl::StrAppendFormat(&text, ", and %s at step %d, the last one", by.ValueText(last),
                          last.step);
  }
  if (used == validations.end()) return text + ".";
  if (is_trial) {
    return text +
           ". A second training read all rows, for the epochs up to that step, and gave this "
           "model: overfitting does not show.";
  }
  if (used == best)
    return text + ". The model is that of the best step: overfitting does not show.";
  return absl::StrFormat(
      "%s. The model is of step %d, with %s: it %s.", text, used->step, by.ValueText(*used),
      by.IsClearlyBetter(score(*best), score(*used)) ? "has learned its training rows by heart"
                                                     : "is hardly worse than the best one");
}

std::vector<Finding> FindingsOf(const Report& report) { return Rules(report).Run(); }

}  // namespace simurgh
