#include "report/findings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/report/good_report.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using testing::GoodReport;

std::vector<std::string> IdsOf(const Report& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : FindingsOf(report)) ids.push_back(finding.id);
  return ids;
}

TEST_CASE("A good report has no findings") { CHECK(IdsOf(GoodReport()).empty()); }

struct Case {
  const char* id;
  std::function<void(Report&)> change;
  const char* text;  // Part of the finding.
};

TEST_CASE("Each rule fires in its case, and no other one does") {
  const Case one = GENERATE(
      Case{"no_better",
           [](Report& report) {
             report.labels[0].metrics.log_loss = 0.5003;
             report.labels[0].intervals.log_loss = {0.49, 0.51};
             report.labels[0].intervals.gain = {-0.01, 0.002};
           },
           "gives 0.5000"},
      Case{"no_better",  // The gain is not clear.
           [](Report& report) { report.labels[0].intervals.gain = {-0.001, 0.2}; }, "from -0.0010"},
      Case{"leak",
           [](Report& report) {
             report.importance->metrics[0].auc = 0.99;
             report.importance->columns[0].effects[0].auc = {
                 .mean = 0.45, .standard_error = 0.01, .interval = {0.43, 0.47}};
             report.importance->columns[1].effects[0].auc.mean = 0.01;
             report.header_names = {{"site", "Site ID"}};
           },
           "--skip 'Site ID'"},
      Case{"overfit",  // The AUC chose the checkpoint, and fell.
           [](Report& report) {
             report.step = 400;
             report.config.emplace_back("training.early_stopping.metric", "auc");
             for (auto& one : report.history.evaluations) one.metrics["auc"] = 0.8;
             report.history.evaluations[1].metrics["auc"] = 0.81;
             report.history.evaluations[3].metrics["auc"] = 0.79;
           },
           "AUC was 0.8100 at step 200"},
      Case{"overfit",
           [](Report& report) {
             report.step = 400;
             report.history.evaluations[3].metrics["logloss"] = 0.45;
           },
           "at step 300"},
      Case{"more_epochs",
           [](Report& report) {
             report.step = 400;
             report.history.evaluations[3].metrics["logloss"] = 0.38;
             report.history.end->reason = "epochs";
           },
           "training.epochs=10"},
      Case{"too_high",
           [](Report& report) {
             report.labels[0].metrics.calibration = 1.25;
             report.labels[0].intervals.calibration = {1.2, 1.3};
             report.segments.clear();
           },
           "25.0 % too high"},
      Case{"too_low",
           [](Report& report) {
             report.labels[0].metrics.calibration = 0.5;
             report.labels[0].intervals.calibration = {0.45, 0.55};
             report.segments.clear();
           },
           "50.0 % too low"},
      Case{"too_low",
           [](Report& report) {
             report.config.emplace_back("data.validation", "[\"valid.csv\"]");
             report.labels[0].metrics.calibration = 0.5;
             report.labels[0].intervals.calibration = {0.45, 0.55};
             report.segments.clear();
           },
           "simurgh update clicks-model"},
      Case{"segment",
           [](Report& report) { report.segments[0].segments[1].labels[0].mean_prediction = 0.2; },
           "site = b.com"},
      Case{"unseen_ids", [](Report& report) { report.ids[0].unseen = 0.3; }, "30.0 %"},
      Case{"unseen_ids", [](Report& report) { report.ids[0].unseen = 0.9; }, "are written"},
      Case{"drift", [](Report& report) { report.numbers[0].mean = 50; }, "age: +1.00"},
      Case{"needless",
           [](Report& report) {
             report.importance->columns[2].effects[0].loss.interval = {-0.001, 0.021};
           },
           "age"},
      Case{"few_rows", [](Report& report) { report.labels[0].intervals.auc = {0.7, 0.85}; },
           "from 0.7000 to"},
      Case{"few_rows", [](Report& report) { report.labels[0].intervals.log_loss = {0.3, 0.45}; },
           "log loss"},
      Case{"few_rows",
           [](Report& report) {
             report.labels[0].rows = 3;
             report.labels[0].intervals = {};
           },
           "It has 3 rows. Fewer than 30"},
      Case{"skipped_steps",
           [](Report& report) { report.history.progress.back().skipped_steps = 7; }, "7 of 400"},
      Case{"waiting",
           [](Report& report) {
             for (auto& progress : report.history.progress) progress.waited = 0.6;
             report.history.progress.back().seconds = 100;
           },
           "60 %"});
  CAPTURE(one.id);
  Report report = GoodReport();
  one.change(report);
  CHECK(IdsOf(report) == std::vector<std::string>{one.id});
  const std::vector<Finding> findings = FindingsOf(report);
  REQUIRE(findings.size() == 1);
  CHECK_THAT(findings[0].what + " " + findings[0].evidence + " " + findings[0].remedy + " " +
                 findings[0].command,
             Contains(one.text));
  CHECK_FALSE(findings[0].evidence.empty());
  CHECK_FALSE(findings[0].remedy.empty());
}

TEST_CASE("Rules need clear evidence") {
  Report report = GoodReport();
  SECTION("a slightly worse validation") { report.step = 400; }
  SECTION("the best model predicts, although a later one was worse") {
    report.history.evaluations[3].metrics["logloss"] = 0.6;
  }
  SECTION("a first training of two") {
    report.trial = "clicks-model-trial";
    report.step = 400;
    report.history.evaluations[3].metrics["logloss"] = 0.6;
  }
  SECTION("a higher loss, where the AUC chose the checkpoint") {
    report.step = 400;
    report.config.emplace_back("checkpoint.best_by", "auc");
    report.history.evaluations[3].metrics["logloss"] = 0.6;
    for (auto& one : report.history.evaluations) one.metrics["auc"] = 0.8;
  }
  SECTION("a training that was stopped by a user") {
    report.step = 400;
    report.history.evaluations[3].metrics["logloss"] = 0.38;
    report.history.end->reason = "stopped";
  }
  SECTION("an average that is off, but not clearly") {
    report.labels[0].metrics.calibration = 1.2;
    report.labels[0].intervals.calibration = {0.95, 1.5};
    report.segments.clear();
  }
  SECTION("a part with few rows") {
    report.segments[0].segments[1].labels[0].rows = 100;
    report.segments[0].segments[1].labels[0].mean_prediction = 0.3;
  }
  SECTION("ids of a table that admits few") {
    report.ids[0].unseen = 0.9;
    report.ids[0].admits_all = false;
  }
  SECTION("a column without statistics") {
    report.numbers[0].mean = 500;
    report.numbers[0].is_fitted = false;
  }
  SECTION("an importance of few rows") {
    report.importance->rows = 500;
    report.importance->columns[2].effects[0].loss.interval = {-0.001, 0.021};
  }
  SECTION("a strong column next to others") {
    report.importance->metrics[0].auc = 0.99;
    report.importance->columns[0].effects[0].auc.mean = 0.3;
  }
  SECTION("rows of one class, of which a constant has no loss") {
    report.labels[0].positives = 0;
    report.labels[0].metrics.constant_log_loss = 0;
    report.labels[0].intervals.gain = {-0.4, -0.3};
  }
  SECTION("a short training that has waited") {
    for (auto& progress : report.history.progress) progress.waited = 0.6;
  }
  SECTION("no validation") { report.history.evaluations.clear(); }
  SECTION("no history and no rows") {
    report.history = {};
    report.labels.clear();
    report.importance.reset();
    report.segments.clear();
    report.input.reset();
  }
  CHECK(IdsOf(report).empty());
}

TEST_CASE("The course of the validation shows overfitting, or that there is none") {
  Report report = GoodReport();
  report.step = 300;
  CHECK_THAT(CourseOf(report), Contains("validation loss was best at step 300, 0.4000, and 0.4010 "
                                        "at step 400, the last one. The model is that of the best "
                                        "step: overfitting does not show."));
  report.trial = "clicks-model-trial";
  CHECK_THAT(CourseOf(report), Contains("A second training read all rows"));
  report.trial.clear();
  report.step = 400;
  CHECK_THAT(CourseOf(report), Contains("of step 400, with 0.4010: it is hardly worse"));
  report.history.evaluations[3].metrics["logloss"] = 0.6;
  CHECK_THAT(CourseOf(report), Contains("with 0.6000: it has learned its training rows by heart"));
  report.step = 350;  // It was not evaluated.
  CHECK_THAT(CourseOf(report), EndsWith("0.6000 at step 400, the last one."));
  report.history.evaluations.clear();
  CHECK_THAT(CourseOf(report), Contains("no validation rows"));
  report.history = {};
  CHECK(CourseOf(report).empty());
}

TEST_CASE("A headline says how good the predictions are, and how sure that is") {
  Report report = GoodReport();
  CHECK_THAT(HeadlineOf(report), Contains("AUC is 0.8000 (95 %: 0.7900 to 0.8100)"));
  CHECK_THAT(HeadlineOf(report), Contains("20.0 % below that of a constant, 0.5000"));
  report.labels[0].metrics.auc = NAN;
  CHECK_THAT(HeadlineOf(report), Contains("All rows have the same label"));
  report.labels[0].kind = LossConfig::Kind::kSquaredError;
  report.labels[0].metrics.rmse = 3.5;
  report.labels[0].metrics.constant_rmse = 7;
  report.labels[0].intervals.rmse = {3.4, 3.6};
  CHECK_THAT(HeadlineOf(report), Contains("off by 3.5000 (95 %: 3.4000 to 3.6000)"));
  report.labels.push_back(report.labels[0]);
  report.labels[1].label = "price";
  CHECK_THAT(HeadlineOf(report), Contains("price: Predictions"));
  report.labels.clear();
  CHECK_THAT(HeadlineOf(report), Contains("no labels"));
  report.input.reset();
  CHECK_THAT(HeadlineOf(report), Contains("No rows"));
  report.history.evaluations.push_back(
      {.step = 9, .is_test = true, .metrics = {{"auc", 0.75}, {"logloss", 0.4}}});
  CHECK_THAT(HeadlineOf(report),
             Contains("last test of the training had AUC 0.7500, log loss 0.4000."));
}

}  // namespace
}  // namespace simurgh
