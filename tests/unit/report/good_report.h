#pragma once

#include <cmath>

#include "report/report.h"

namespace simurgh::testing {

// A report of a good model, of which no rule of FindingsOf() has anything to say.
inline Report GoodReport() {
  Report report;
  report.folder = "clicks-model";
  report.version = "0.1.0";
  report.step = 300;
  report.samples = 30'000;
  report.step_time = 1'700'000'000;
  report.config = {{"training.epochs", "5"}};
  report.input = InputReport{
      .name = "clicks.test.csv", .rows = 20'000, .sampled_rows = 20'000, .has_labels = true};
  LabelReport label{
      .label = "clicked",
      .rows = 20'000,
      .positives = 4'000,
      .mean_label = 0.2,
      .mean_prediction = 0.201,
      .metrics = {.auc = 0.8,
                  .log_loss = 0.4,
                  .constant_log_loss = 0.5,
                  .rmse = NAN,
                  .constant_rmse = NAN,
                  .calibration = 1.005},
      .intervals = {.auc = {0.79, 0.81},
                    .log_loss = {0.39, 0.41},
                    .rmse = {},
                    .calibration = {0.97, 1.04},
                    .gain = {0.09, 0.11}},
      .deciles = {{.rows = 2'000,
                   .lowest = 0.1,
                   .highest = 0.2,
                   .prediction = 0.15,
                   .label = 0.16,
                   .interval = {0.14, 0.18}}},
      .curves = {.points = {{0.5, 0.1, 0.4, 0.05, 0.6}, {0.1, 1, 1, 1, 0.2}},
                 .choices = {{0.5, 0.1, 0.4, 0.05, 0.6}},
                 .average_precision = 0.5},
      .scores = {.low = 0, .width = 0.5, .first = {1'000, 3'000}, .second = {12'000, 4'000}},
      .residuals = {}};
  report.labels = {label};
  const auto effects = [](double loss, double auc) {
    PermutationEffects both;
    both.loss = {.mean = loss, .standard_error = 0.001, .interval = {loss - 0.002, loss + 0.002}};
    both.auc = {.mean = auc, .standard_error = 0.001, .interval = {auc - 0.002, auc + 0.002}};
    return both;
  };
  report.importance = Importance{.rows = 20'000,
                                 .repeats = 5,
                                 .metrics = {label.metrics},
                                 .columns = {{{"site"}, {effects(0.05, 0.1)}},
                                             {{"ad"}, {effects(0.03, 0.07)}},
                                             {{"age"}, {effects(0.01, 0.02)}}}};
  report.segments = {{.column = "site",
                      .segments = {{.name = "a.com",
                                    .rows = 12'000,
                                    .labels = {{.rows = 12'000,
                                                .mean_label = 0.25,
                                                .mean_prediction = 0.252,
                                                .metrics = label.metrics}}},
                                   {.name = "b.com",
                                    .rows = 8'000,
                                    .labels = {{.rows = 8'000,
                                                .mean_label = 0.125,
                                                .mean_prediction = 0.1245,
                                                .metrics = label.metrics}}}}}};
  report.ids = {{.column = "site", .unseen = 0.01, .ids = 20'000}};
  report.numbers = {{.column = "age",
                     .is_fitted = true,
                     .training_mean = 40,
                     .training_deviation = 10,
                     .mean = 41,
                     .deviation = 10}};
  report.tables = {{.name = "site",
                    .dim = 8,
                    .rows = 34,
                    .bytes = 4'096,
                    .evicted = 5,
                    .mean_norm = 0.4,
                    .median_norm = 0.35,
                    .high_norm = 0.9}};
  report.files = {{"dense.safetensors", 10'000}};
  for (int i = 1; i <= 4; ++i) {
    report.history.progress.push_back({.step = static_cast<uint64_t>(100 * i),
                                       .epoch = static_cast<double>(i),
                                       .seconds = i * 2.0,
                                       .samples = i * 10'000.0,
                                       .loss = 0.5 - 0.02 * i,
                                       .auc = 0.7 + 0.02 * i,
                                       .samples_per_s = 5'000,
                                       .skipped_steps = 0,
                                       .waited = 0.1});
  }
  for (const auto& [step, loss] :
       {std::pair(100, 0.45), std::pair(200, 0.42), std::pair(300, 0.4), std::pair(400, 0.401)}) {
    report.history.evaluations.push_back(
        {.step = static_cast<uint64_t>(step), .metrics = {{"logloss", loss}, {"auc", 1.2 - loss}}});
  }
  report.history.end =
      TrainingHistory::End{.step = 400, .reason = "early_stopping", .best_step = 300};
  return report;
}

}  // namespace simurgh::testing
