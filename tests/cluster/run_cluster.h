#pragma once

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {

// A whole run of daemons, which must not fail.
inline TrainerOutcome RunCluster(const TestClusterOptions& options) {
  TestCluster cluster(options);
  const auto trainer = cluster.StartTrainer();
  const TrainerOutcome outcome = Finish(*trainer);
  INFO(trainer->log());
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

}  // namespace simurgh::testing
