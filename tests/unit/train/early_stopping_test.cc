#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "train/progress_meter.h"

namespace simurgh {
namespace {

// How many evaluations are made.
size_t Evaluations(const EarlyStoppingConfig& config, const std::vector<double>& values) {
  EarlyStopping stopping(config);
  size_t count = 0;
  for (const double value : values) {
    ++count;
    const bool by_loss = config.metric == EarlyStoppingConfig::Metric::kLogLoss;
    if (stopping.IsOver(by_loss ? EvaluationResult{.log_loss = value}
                                : EvaluationResult{.auc = value})) {
      break;
    }
  }
  return count;
}

TEST_CASE("training ends after patience evaluations in a row without improvement") {
  const std::vector<double> values{0.6, 0.7, 0.69, 0.7, 0.8, 0.75, 0.75, 0.81, 0.8, 0.8, 0.8};
  CHECK(Evaluations({.patience = 0}, values) == 11);
  CHECK(Evaluations({.patience = 1}, values) == 3);
  CHECK(Evaluations({.patience = 2}, values) == 4);
  CHECK(Evaluations({.patience = 3}, values) == 11);
  CHECK(Evaluations({.patience = 4}, values) == 11);
  // 0.81 is too little above 0.8 then.
  CHECK(Evaluations({.patience = 3, .min_improvement = 0.05F}, values) == 8);
}

TEST_CASE("of log loss, less is better") {
  using Metric = EarlyStoppingConfig::Metric;
  CHECK(Evaluations({.patience = 2, .metric = Metric::kLogLoss}, {0.5, 0.4, 0.3, 0.3, 0.2}) == 5);
  CHECK(Evaluations({.patience = 2, .metric = Metric::kLogLoss}, {0.3, 0.4, 0.5, 0.1}) == 3);
}

TEST_CASE("an evaluation without a value is no better") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(Evaluations({.patience = 2}, {nan, nan, 0.5}) == 2);
  CHECK(Evaluations({.patience = 2}, {nan, 0.5, nan, 0.6, nan, nan, 0.7}) == 6);
}

}  // namespace
}  // namespace simurgh
