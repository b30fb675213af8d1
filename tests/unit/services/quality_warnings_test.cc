#include "services/nn_worker/quality_warnings.h"

#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

using Catch::Contains;

EvaluationResult Loss(double log_loss, double constant) {
  return {.log_loss = log_loss, .normalized_entropy = log_loss / constant};
}

TEST_CASE("A log loss above that of a constant is told with both numbers, by label") {
  CHECK(LogLossWarnings(Loss(0.6589, 0.659), {"click"}).empty());
  const auto warnings = LogLossWarnings(Loss(0.762, 0.659), {"click"});
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("label 'click': the test's log loss is 0.7620. The share of "
                                   "positives for every row gives 0.6590."));
  EvaluationResult two = Loss(0.1, 0.5);
  two.tasks = {Loss(0.1, 0.5), Loss(0.9, 0.5)};
  REQUIRE(LogLossWarnings(two, {"click", "buy"}).size() == 1);
  CHECK_THAT(LogLossWarnings(two, {"click", "buy"})[0], Contains("label 'buy'"));
  // A number, and a label of one value.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(LogLossWarnings({.log_loss = nan, .normalized_entropy = nan}, {"count"}).empty());
  EvaluationResult number{.loss_kind = LossConfig::Kind::kSquaredError,
                          .log_loss = nan,
                          .normalized_entropy = nan,
                          .rmse = 1.0,
                          .constant_rmse = 1.01};
  CHECK(LogLossWarnings(number, {"price"}).empty());
  number.rmse = 1.02;
  const auto worse = LogLossWarnings(number, {"price"});
  REQUIRE(worse.size() == 1);
  CHECK(worse[0] ==
        "label 'price': the test's RMSE is 1.02. The mean label for every row gives 1.01. "
        "Train for fewer epochs, or with columns that tell more");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(LogLossWarnings({.log_loss = 0.2, .normalized_entropy = infinity}, {"click"}).empty());
}

// Losses of training and validation, evaluation by evaluation.
ValidationCourse CourseOf(const TrainingConfig& training,
                          const std::vector<std::vector<double>>& losses) {
  ValidationCourse course(training);
  uint64_t step = 0;
  for (const std::vector<double>& loss : losses) {
    for (int i = 0; i < 10; ++i) course.AddStep({.samples = 8, .loss = loss[0]});
    course.AddStep({.samples = 8, .loss = 1e9, .applied = false});
    EvaluationResult result = Loss(3 * loss[1], 1);
    result.fitted = FittedCalibration{.calibration = {}, .log_loss = loss[1], .problem = {}};
    course.AddEvaluation(step += 10, result);
  }
  return course;
}

TEST_CASE("A model that predicts validation rows worse than before names the epoch") {
  TrainingConfig training;
  training.evaluate_every_epochs = 2;
  ValidationCourse course = CourseOf(training, {{0.5, 0.45}, {0.4, 0.42}, {0.2, 0.44}, {0.1, 0.6}});
  CHECK(course.DriftAt(10).empty());
  CHECK(course.DriftAt(20).empty());
  CHECK(course.DriftAt(30).empty());  // Hardly worse.
  CHECK(course.DriftAt(25).empty());  // Not evaluated.
  CHECK(course.DriftAt(40) ==
        "training and validation drift apart after epoch 4. Until epoch 8 the training loss fell "
        "from 0.4000 to 0.1000. The validation loss rose from 0.4200 to 0.6000. Set "
        "training.early_stopping and checkpoint.directory, or train for fewer epochs");
  course.StartAfter(6);
  CHECK_THAT(course.DriftAt(40), Contains("after epoch 10. Until epoch 14 "));
  training.evaluate_every_steps = 10;
  training.early_stopping.patience = 2;
  CHECK_THAT(CourseOf(training, {{0.5, 0.4}, {0.3, 0.5}}).DriftAt(20),
             Contains("after step 10. Until step 20 ") &&
                 Contains("Set training.early_stopping.metric: log_loss"));
  // Both losses rise: the data changes, or training diverges.
  CHECK(CourseOf(training, {{0.3, 0.4}, {0.5, 0.6}}).DriftAt(20).empty());
}

}  // namespace
}  // namespace simurgh::testing
