#include "services/nn_worker/model_saver.h"

#include <optional>
#include <string>

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
