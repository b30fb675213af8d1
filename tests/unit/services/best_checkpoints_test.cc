#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "services/nn_worker/model_saver.h"

namespace simurgh {
namespace {

using Steps = std::vector<uint64_t>;
using Metric = EvaluationMetric;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Manifest Saved(uint64_t step, double auc, double log_loss) {
  return {.step = step, .metrics = {{"validation_auc", auc}, {"validation_logloss", log_loss}}};
}

TrainState Evaluated(uint64_t steps, double auc, double log_loss) {
  return {.steps = steps, .validation = EvaluationResult{.auc = auc, .log_loss = log_loss}};
}

TEST_CASE("The best checkpoints are those of the best evaluations") {
  const auto metric = GENERATE(Metric::kAuc, Metric::kLogLoss);
  BestCheckpoints best({.keep_best = 2, .best_by = metric});
  CHECK(best.Admits(Evaluated(1, 0.5, 0.5)));
  CHECK(best.BestWith(Evaluated(1, 0.5, 0.5)) == 1);
  for (const Manifest& one : {Saved(1, 0.6, 0.4), Saved(2, 0.8, 0.1), Saved(3, 0.7, 0.2),
                              Saved(4, 0.6, 0.5), Manifest{.step = 5}}) {
    best.Add(one);
  }
  CHECK(best.Steps() == Steps{2, 3});
  const bool by_auc = metric == Metric::kAuc;
  CHECK(best.Admits(Evaluated(6, 0.75, 0.4)) == by_auc);
  CHECK(best.Admits(Evaluated(6, 0.6, 0.15)) == !by_auc);
  CHECK(best.BestWith(Evaluated(6, 0.75, 0.15)) == 2);
  CHECK(best.BestWith(Evaluated(6, 0.9, 0.05)) == 6);
  CHECK(best.BestWith({.steps = 6}) == 2);
}

TEST_CASE("Of equal evaluations the earlier is better, and NaN is never") {
  BestCheckpoints best({.keep_best = 2});
  CHECK(!best.Admits(Evaluated(9, kNan, 0.1)));
  CHECK(!best.Admits({.steps = 9}));
  best.Add(Saved(9, kNan, 0.1));
  CHECK(best.Steps().empty());
  CHECK(!best.BestWith(Evaluated(9, kNan, 0.1)));
  best.Add(Saved(3, 0.7, 0.1));
  best.Add(Saved(1, 0.7, 0.1));
  best.Add(Saved(2, 0.7, 0.1));
  CHECK(best.Steps() == Steps{1, 2});
  CHECK(!best.Admits(Evaluated(4, 0.7, 0.1)));
  CHECK(best.BestWith(Evaluated(4, 0.7, 0.1)) == 1);
}

TEST_CASE("A checkpoint replaces the one of the same step") {
  BestCheckpoints best({.keep_best = 1});
  best.Add(Saved(3, 0.7, 0.1));
  best.Add(Saved(3, 0.6, 0.1));
  CHECK(best.Steps() == Steps{3});
  CHECK(best.Admits(Evaluated(4, 0.65, 0.1)));
}

TEST_CASE("Without keep_best no evaluation is compared") {
  BestCheckpoints best({.keep_best = 0});
  best.Add(Saved(3, 0.7, 0.1));
  CHECK(!best.enabled());
  CHECK(!best.Admits(Evaluated(4, 0.9, 0.1)));
  CHECK(best.Steps().empty());
  CHECK(!best.BestWith(Evaluated(4, 0.9, 0.1)));
}

}  // namespace
}  // namespace simurgh
