// What configures the dense network's training and its evaluation, tried on real data in one
// process.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

constexpr char kPersia[] = "config/adult-persia.yaml";
constexpr char kValidation[] = "data.validation=[data/adult/adult.test.csv.zst]";
constexpr uint64_t kStepsPerEpoch = 254;  // Full batches of 128.

std::vector<std::string> With(std::vector<std::string> overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

TEST_CASE("Every dense optimizer learns, and repeats to the last byte") {
  const std::string optimizer = GENERATE(
      "{kind: sgd, momentum: 0.9, nesterov: true, learning_rate: 0.02}",
      "{kind: adam, learning_rate: 0.002, decoupled_weight_decay: 0.01}",
      "{kind: adagrad, learning_rate: 0.02}", "{kind: lamb, learning_rate: 0.01}",
      "{learning_rate: 0.1, max_gradient_norm: 1, average_decay: 0.99, schedule: {kind: cosine, "
      "warmup_steps: 20, decay_steps: 240}}");
  CAPTURE(optimizer);
  const std::string override_text = "training.dense_optimizer=" + optimizer;
  CHECK(TrainStandalone(kPersia, 2, {override_text}).auc > 0.885);
  const std::vector<std::string> overrides = With(Reproducible("4"), override_text);
  CHECK(TrainStandalone(kPersia, 1, overrides) == TrainStandalone(kPersia, 2, overrides));
}

TEST_CASE("A schedule and a limit of the gradient change the result: the comparison can fail") {
  const Outcome plain = TrainStandalone(kPersia, 1, Reproducible("1"));
  for (const std::string key : {"schedule.warmup_steps=50", "max_gradient_norm=0.01",
                                "weight_decay=0.1", "decoupled_weight_decay=0.1"}) {
    CAPTURE(key);
    CHECK_FALSE(
        plain ==
        TrainStandalone(kPersia, 1, With(Reproducible("1"), "training.dense_optimizer." + key)));
  }
}

TEST_CASE("Training ends early, at the end of an epoch, when validation gets no better") {
  const Outcome outcome =
      TrainStandalone(kPersia, 1,
                      {kValidation, "training.epochs=20", "training.evaluate_every_epochs=1",
                       "training.early_stopping={patience: 1, min_improvement: 0.05}"});
  CHECK(outcome.steps == 2 * kStepsPerEpoch);
}

TEST_CASE("Evaluation after epochs leaves no trace") {
  const std::vector<std::string> plain = {"training.reproducible=true", "training.epochs=2"};
  std::vector<std::string> evaluated = With(plain, "training.evaluate_every_epochs=1");
  evaluated.emplace_back("training.auc_group_feature=occupation");
  CHECK(TrainStandalone(kPersia, 1, plain) == TrainStandalone(kPersia, 1, evaluated));
}

}  // namespace
}  // namespace simurgh::testing
