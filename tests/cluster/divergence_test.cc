// Runs that diverge end with exit code 3 and name the cause; real daemons.

#include <chrono>

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void CheckDiverged(DaemonProcess& trainer, const std::string& cause) {
  const TrainerOutcome outcome = Finish(trainer);
  const std::string log = trainer.log();
  CAPTURE(log, trainer.output());
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(log, Catch::Contains("the last 100 steps (training.max_skipped_steps)"));
  CHECK_THAT(log, Catch::Contains(cause));
  CHECK(trainer.output().empty());
  // Of 100 skipped steps; the limit allows 10 lines at once, and one a second.
  CHECK(CountOf(log, "skipped a step") < 50);
}

TEST_CASE("A learning rate that is too large ends the run in every mode") {
  const std::string mode = GENERATE("sync", "hybrid", "async");
  CAPTURE(mode);
  TestCluster cluster({.config = "config/adult.yaml"});
  const auto trainer =
      cluster.StartTrainer({"training.mode=" + mode, "training.dense_optimizer.kind=sgd",
                            "training.dense_optimizer.learning_rate=1e6"});
  CheckDiverged(*trainer, "training.dense_optimizer.learning_rate");
}

TEST_CASE("All ranks of a run that diverges end with 3") {
  const std::string mode = GENERATE("sync", "async");
  CAPTURE(mode);
  TestCluster cluster({.config = "config/adult.yaml", .ranks = 2});
  const auto trainers =
      cluster.StartTrainers(2, {"training.mode=" + mode, "training.dense_optimizer.kind=sgd",
                                "training.dense_optimizer.learning_rate=1e6"});
  for (const auto& trainer : trainers) {
    CheckDiverged(*trainer, "training.dense_optimizer.learning_rate");
  }
}

}  // namespace
}  // namespace simurgh::testing
