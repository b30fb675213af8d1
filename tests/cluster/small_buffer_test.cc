// Forward buffers with room for a single batch, and connections that hold a single message. Every
// run ends with the same result as with large buffers.

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Overrides = std::vector<std::string>;

// A batch takes more than half of the smallest buffer: 8,192 samples of 8 features, 64 bytes each.
const std::string kSmallBuffer = "embedding_worker.forward_buffer_bytes=1048576";
// Two batches, or a batch and gradients, are more than the smallest window.
const std::string kSmallWindow = "rpc.peer_memory_bytes=65536";

Overrides With(const Overrides& more) {
  Overrides overrides{"training.batch_size=8192",       "training.epochs=4",
                      "training.drop_last=false",       "training.loader_queue_batches=4",
                      "training.retry_deadline=20s",    "nn_worker.rank_timeout=30s",
                      "training.evaluate_every_steps=3"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

// Results of a run.
struct Remains {
  std::string test_auc;
  std::string network;
  std::map<std::string, uint64_t> rows;  // Digests by table.

  bool operator==(const Remains&) const = default;
};

Remains Train(const Overrides& overrides, size_t workers) {
  TestCluster cluster(
      {.workers = workers, .ranks = 2, .overrides = With(overrides), .digests = true});
  const auto trainers = cluster.StartTrainers(2);
  Remains remains;
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    INFO(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    remains.test_auc = outcome.test_auc;
    remains.network = outcome.network_digest;
  }
  remains.rows = cluster.StopServersForDigests();
  CHECK(remains.rows.size() == 8);
  return remains;
}

TEST_CASE("Two ranks with room for one batch train and evaluate as with plenty, to the last bit") {
  const Overrides order = GENERATE(
      Overrides{"training.mode=sync"},
      Overrides{"training.mode=hybrid", "training.reproducible=true", "training.staleness=3"});
  CAPTURE(order);
  const Remains expected = Train(order, 1);
  Overrides small = order;
  small.insert(small.end(), {kSmallBuffer, kSmallWindow});
  for (const size_t workers : {1, 2}) {
    CAPTURE(workers);
    CHECK(Train(small, workers) == expected);
  }
}

TEST_CASE("Two ranks with room for one batch finish in every mode") {
  const std::string mode = GENERATE("hybrid", "naive_hybrid", "async");
  CAPTURE(mode);
  Overrides overrides{"training.mode=" + mode, "training.staleness=4", kSmallBuffer, kSmallWindow};
  if (mode == "async") {  // Evaluates at the end alone.
    overrides.insert(overrides.end(), {"training.evaluate_every_steps=0",
                                       "embedding_worker.forward_buffer_batches=20"});
  }
  CHECK_FALSE(Train(overrides, 1).test_auc.empty());
}

TEST_CASE("So does one process") {
  const Overrides order{"training.reproducible=true", "training.staleness=3"};
  const TrainerOutcome expected = RunStandalone({.overrides = With(order)});
  REQUIRE(expected.exit_code == 0);
  Overrides small = order;
  small.push_back(
      GENERATE(as<std::string>(), kSmallBuffer, "embedding_worker.forward_buffer_batches=1"));
  const TrainerOutcome outcome = RunStandalone({.overrides = With(small)});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.test_auc == expected.test_auc);
  CHECK(outcome.network_digest == expected.network_digest);
}

}  // namespace
}  // namespace simurgh::testing
