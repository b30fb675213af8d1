#include "services/nn_worker/quality_warnings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/reading/batch_reader.h"

namespace simurgh {

namespace {

constexpr char kCompare[] = "Compare their columns with those of the training";

// Returns warnings about a loss above that of a constant. of_test: false for an update's new rows.
std::vector<std::string> LogLossWarnings(const EvaluationResult& result,
                                         const std::vector<std::string>& labels, bool of_test) {
  // A model that has learned nothing may exceed the loss of a constant by this much.
  constexpr double kTolerance = 0.001;
  constexpr double kRmseTolerance = 0.001;  // Share of the constant's RMSE.
  constexpr uint64_t kFewRows = 300;        // Fewer new rows of an update give no warning.
  const auto name = [of_test](const std::string& loss) {
    return of_test ? absl::StrCat("the test's ", loss)
                   : absl::StrCat("before training, the new rows' ", loss);
  };
  std::vector<std::string> warnings;
  const auto check = [&](const EvaluationResult& one, const std::string& label) {
    if (!of_test && one.samples < kFewRows) return;
    if (IsRegression(one.loss_kind)) {
      if (!(one.rmse > (1 + kRmseTolerance) * one.constant_rmse)) return;
      warnings.push_back(absl::StrFormat(
          "label '%s': %s is %.4g. The mean label for every row gives %.4g. %s", label,
          name("RMSE"), one.rmse, one.constant_rmse,
          of_test ? "Train for fewer epochs, or with columns that tell more" : kCompare));
      return;
    }
    const double constant = one.log_loss / one.normalized_entropy;
    // If a label has one value only, the constant's loss is 0.
    if (!(constant > 0) || one.log_loss <= constant + kTolerance) return;
    warnings.push_back(absl::StrFormat(
        "label '%s': %s is %.4f. The share of positives for every row gives %.4f. %s", label,
        name("log loss"), one.log_loss, constant,
        of_test ? "Train for fewer epochs, or see training.calibration" : kCompare));
  };
  if (result.tasks.empty()) check(result, labels.front());
  for (size_t task = 0; task < result.tasks.size(); ++task) {
    check(result.tasks[task], labels[task]);
  }
  return warnings;
}

}  // namespace

std::vector<std::string> LogLossWarnings(const EvaluationResult& result,
                                         const std::vector<std::string>& labels) {
  return LogLossWarnings(result, labels, /*of_test=*/true);
}

std::vector<std::pair<std::string, double>> UnseenColumns(const EvaluationResult& result,
                                                          const ClusterConfig& config) {
  constexpr double kMany = 0.5;
  std::vector<std::pair<std::string, double>> all;
  for (size_t f = 0; f < result.unseen_shares.size(); ++f) {
    const FeatureConfig& feature = config.features[f];
    const TableConfig& table = config.tables[feature.table_index];
    const std::vector<std::string> columns = feature.sources();
    // Pairs of known ids are often new. Weights of the first order have the ids of other features.
    if (!(result.unseen_shares[f] >= kMany) || columns.size() > 1 || table.dim == 1 ||
        table.admission.kind != AdmissionConfig::Kind::kAlways) {
      continue;
    }
    all.emplace_back(columns.front(), result.unseen_shares[f]);
  }
  return all;
}

std::vector<std::string> NewRowsWarnings(const EvaluationResult& result,
                                         const ClusterConfig& config) {
  std::vector<std::string> warnings =
      LogLossWarnings(result, LabelColumns(config.data), /*of_test=*/false);
  for (const auto& [column, share] : UnseenColumns(result, config)) {
    warnings.push_back(absl::StrFormat(
        "column '%s': the model has not seen %.0f %% of the new rows' ids. Compare how they are "
        "written with the training data",
        column, 100 * share));
  }
  return warnings;
}

void ValidationCourse::AddStep(const TrainObserver::Step& step) {
  if (!step.applied) return;
  loss_ += step.loss * static_cast<double>(step.samples);
  samples_ += static_cast<double>(step.samples);
}

void ValidationCourse::AddEvaluation(uint64_t step, const EvaluationResult& result) {
  const double log_loss = result.fitted ? result.fitted->log_loss : result.log_loss;
  const double validation = IsRegression(result.loss_kind) ? result.loss : log_loss;
  const double train = std::exchange(loss_, 0) / std::exchange(samples_, 0);
  points_.push_back({.step = step, .train = train, .validation = validation});
}

std::string ValidationCourse::NameOf(const Point& point) const {
  if (epochs_of_evaluation_ == 0) return absl::StrCat("step ", point.step);
  const auto index = static_cast<uint32_t>(&point - points_.data());
  return absl::StrCat("epoch ", first_epoch_ + (index + 1) * epochs_of_evaluation_);
}

std::string ValidationCourse::DriftAt(uint64_t step) const {
  constexpr double kClear = 1.05;
  const auto used = std::ranges::find(points_, step, &Point::step);
  if (used == points_.end()) return "";
  const auto best = std::ranges::min_element(points_.begin(), used, {}, &Point::validation);
  if (best == used || !(used->validation > kClear * best->validation) ||
      !(used->train < best->train)) {
    return "";
  }
  return absl::StrFormat(
      "%s after %s. Until %s the training loss fell from %.4f to %.4f. The validation loss rose "
      "from %.4f to %.4f. %s",
      kDriftWarning, NameOf(*best), NameOf(*used), best->train, used->train, best->validation,
      used->validation,
      has_early_stopping_
          ? "Set training.early_stopping.metric: log_loss, or lower the learning rates"
          : "Set training.early_stopping and checkpoint.directory, or train for fewer epochs");
}

}  // namespace simurgh
