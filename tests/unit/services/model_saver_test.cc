#include "services/nn_worker/model_saver.h"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

constexpr uint64_t kNewRun = 7;

// A folder with checkpoints, and starts of training in it.
struct Starts {
  Starts() { config.checkpoint.directory = folder.Path("model"); }

  ModelDirectory directory() { return ModelDirectory(config.checkpoint.directory); }
  Checkpoint Publish(uint64_t step, uint64_t generation) {
    return directory().Begin(step, generation)->Publish({}).value();
  }
  StatusOr<std::unique_ptr<ModelSaver>> Open(const std::optional<Checkpoint>& continued,
                                             bool takes_newest) {
    return ModelSaver::Open(config, continued ? &*continued : nullptr, takes_newest, kNewRun, best);
  }

  const TemporaryFolder folder;
  ClusterConfig config;
  BestCheckpoints best{CheckpointConfig()};
};

TEST_CASE("A start takes no checkpoint that another one has overtaken") {
  Starts starts;
  const auto first = starts.Open(std::nullopt, true);
  REQUIRE(first.ok());
  // Another start has looked for a checkpoint, and has not found this one.
  const Checkpoint old = starts.Publish(5, 1);
  const Status none = starts.Open(std::nullopt, true).status();
  CHECK(absl::IsAborted(none));
  CHECK_THAT(std::string(none.message()), Catch::Contains("/step-5 while this one looked for"));
  // No older start completes a checkpoint from here on.
  CHECK(absl::IsFailedPrecondition(starts.directory().Begin(6, 1)->Publish({}).status()));

  CHECK(starts.Open(old, true).ok());
  const Checkpoint next = starts.Publish(9, 3);
  CHECK(absl::IsAborted(starts.Open(old, true).status()));
  CHECK(starts.Open(next, true).ok());
  // The user has named it.
  CHECK(starts.Open(old, false).ok());
  CHECK(absl::IsInvalidArgument(starts.Open(std::nullopt, false).status()));
}

TEST_CASE("Checkpoints of training that was thrown away are not the best") {
  Starts starts;
  starts.config.checkpoint.keep_best = 5;
  const auto publish = [&](uint64_t step, uint64_t generation, double auc) {
    Manifest manifest;
    manifest.metrics = {{"validation_auc", auc}, {"validation_logloss", 1 - auc}};
    return starts.directory().Begin(step, generation)->Publish(manifest).value();
  };
  REQUIRE(starts.Open(std::nullopt, true).ok());
  const Checkpoint first = publish(10, 1, 0.7);
  publish(30, 1, 0.9);
  publish(50, 1, 0.8);
  // Continues from step 10, with an evaluation at other steps.
  REQUIRE(starts.Open(first, false).ok());
  publish(20, 2, 0.6);
  const Checkpoint last = publish(40, 2, 0.75);
  BestCheckpoints best(starts.config.checkpoint);
  REQUIRE(ModelSaver::Open(starts.config, &last, true, kNewRun, best).ok());
  CHECK(best.Steps() == std::vector<uint64_t>{40, 10, 20});
  CHECK(ModelDirectory(starts.config.checkpoint.directory).BestStep().value() == 40);
}

TEST_CASE("A training saves to another folder with a generation that continues its own") {
  Starts starts;
  REQUIRE(starts.Open(std::nullopt, true).ok());
  const auto saver = starts.Open(std::nullopt, true);
  REQUIRE(saver.ok());
  const std::string other = starts.folder.Path("other");
  const auto copy = (*saver)->To(other);
  REQUIRE(copy.ok());
  CHECK((*copy)->run() == (*saver)->run());
  CHECK((*copy)->generation() == 2);
  CHECK(ModelDirectory(other).KeepRun(99, 2) == StatusOr<uint64_t>(kNewRun));
  CHECK(ModelDirectory(other).Begin(5, 2)->Publish({}).ok());
  CHECK(absl::IsInvalidArgument((*saver)->To(other).status()));
}

}  // namespace
}  // namespace simurgh
