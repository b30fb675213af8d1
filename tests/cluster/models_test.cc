// The examples of models, trained on real data in one process.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

std::string AnyModel() {
  return GENERATE("config/adult-dlrm.yaml", "config/adult-dcn-v2.yaml", "config/adult-deepfm.yaml",
                  "config/adult-wide-deep.yaml");
}

TEST_CASE("Every model learns") {
  const std::string model = AnyModel();
  CAPTURE(model);
  CHECK(TrainStandalone(model, 2, {}).auc > 0.905);
}

TEST_CASE("Every model trains to the same last byte with 1 and 2 servers") {
  const std::string model = AnyModel();
  CAPTURE(model);
  CHECK(TrainStandalone(model, 1, Reproducible("4")) ==
        TrainStandalone(model, 2, Reproducible("4")));
}

TEST_CASE("Focal loss learns, too, and a heavier positive class changes the result") {
  const std::string model = "config/adult-dlrm.yaml";
  CHECK(TrainStandalone(model, 1, {"model.loss={kind: focal}"}).auc > 0.9);
  const Outcome plain = TrainStandalone(model, 1, Reproducible("1"));
  std::vector<std::string> overrides = Reproducible("1");
  overrides.emplace_back("model.loss={positive_weight: 3}");
  CHECK_FALSE(TrainStandalone(model, 1, overrides) == plain);
}

TEST_CASE("Two labels are learned at once, each by its own tower") {
  const std::string model = "config/adult-tasks.yaml";
  const Outcome both = TrainStandalone(model, 2, {});
  REQUIRE(both.task_aucs.size() == 2);
  CHECK(both.auc == both.task_aucs[0]);
  CHECK(both.task_aucs[0] > 0.85);
  CHECK(both.task_aucs[1] > 0.87);
  // A label without weight is not learned.
  const Outcome one = TrainStandalone(
      model, 2, {"model.tasks=[{label: income}, {label: marital_status, weight: 0}]"});
  CHECK(one.task_aucs[0] < 0.8);
  CHECK(one.task_aucs[1] > 0.87);
}

TEST_CASE("Several labels train to the same last byte with 1 and 2 servers") {
  const std::string model = "config/adult-tasks.yaml";
  CHECK(TrainStandalone(model, 1, Reproducible("4")) ==
        TrainStandalone(model, 2, Reproducible("4")));
}

}  // namespace
}  // namespace simurgh::testing
