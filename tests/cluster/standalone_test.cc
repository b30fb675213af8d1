// A whole cluster in one process, compared with itself byte by byte.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/cluster/standalone_run.h"

namespace simurgh::testing {
namespace {

Outcome Train(int servers, const std::vector<std::string>& overrides) {
  return TrainStandalone("config/adult-persia.yaml", servers, overrides);
}

TEST_CASE("Weights and rows agree to the last byte with 1, 2 and 3 servers") {
  const std::string staleness = GENERATE("1", "4");
  CAPTURE(staleness);
  const Outcome first = Train(2, Reproducible(staleness));
  CHECK(first == Train(2, Reproducible(staleness)));
  CHECK(first == Train(1, Reproducible(staleness)));
  CHECK(first == Train(3, Reproducible(staleness)));
}

TEST_CASE("Staleness changes the result: the comparison can fail") {
  CHECK_FALSE(Train(1, Reproducible("1")) == Train(1, Reproducible("4")));
}

TEST_CASE("Evaluation on the way leaves no trace in weights, rows or optimizer state") {
  const std::string staleness = GENERATE("1", "4");
  CAPTURE(staleness);
  std::vector<std::string> with_evaluation = Reproducible(staleness);
  with_evaluation.emplace_back("training.evaluate_every_steps=50");
  CHECK(Train(2, with_evaluation) == Train(2, Reproducible(staleness)));
}

TEST_CASE("Free running trains too") {
  const Outcome outcome = Train(2, {"training.staleness=10"});
  CHECK(outcome.auc > 0.88);
}

}  // namespace
}  // namespace simurgh::testing
