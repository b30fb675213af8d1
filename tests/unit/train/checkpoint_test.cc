// Saving while training continues, with a fake of what saves.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/mutex.h"
#include "simurgh/train/trainer.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"

namespace simurgh::testing {
namespace {

using Patience = std::chrono::milliseconds;
using Events = std::vector<std::string>;

// A save ends once this many steps have been trained since its begin.
class FakeCheckpoints : public CheckpointPort, public TrainObserver {
 public:
  std::set<uint64_t> due;
  uint64_t steps_of_save = 3;
  int waits_for_rows = 0;         // Calls of AwaitRows that return false.
  bool ends_while_waited = true;  // Otherwise AwaitIdle never finds that it has ended.
  Status failure_at_end;
  std::function<void()> on_wait = [] {};

  bool IsDue(uint64_t step) override { return due.contains(step); }
  bool AwaitIdle(Patience patience) override {
    CHECK(patience.count() > 0);
    if (saving_) events.emplace_back("wait for the end");
    on_wait();
    if (saving_ && ends_while_waited) End();
    return !saving_;
  }
  void Begin(const TrainState& state) override {
    CHECK(!saving_);
    events.push_back("begin " + std::to_string(state.steps));
    saving_ = true;
    steps_ = 0;
  }
  bool AwaitRows(Patience patience) override {
    CHECK(patience.count() > 0);
    on_wait();
    if (waits_for_rows-- > 0) return false;
    events.emplace_back("rows noted");
    return true;
  }
  Status failure() override { return failure_; }

  void OnStep(const Step& step) override {
    events.push_back("step " + std::to_string(step.step));
    if (saving_ && ++steps_ == steps_of_save) End();
  }
  void OnCheckpoint(std::chrono::nanoseconds waited) override {
    CHECK(waited.count() > 0);
    ++waits;
  }

  Events events;
  int waits = 0;

 private:
  void End() {
    saving_ = false;
    events.emplace_back("end");
    failure_ = failure_at_end;
  }

  bool saving_ = false;
  uint64_t steps_ = 0;
  Status failure_;
};

StatusOr<TrainResult> Train(FakeCheckpoints& checkpoints, uint64_t steps,
                            const std::atomic<bool>* interrupt = nullptr,
                            const std::stop_token& stop = {}) {
  const auto network = LinearNetwork({1});
  TrainingConfig config{.batch_size = FewBatches::kSamples};
  config.progress_interval = std::chrono::hours(1);
  ReadyPort port;
  const auto collective = NewLocalCollective();
  Trainer trainer(config, /*run=*/1, port, *network, *collective,
                  {.train = [steps](uint32_t) { return std::make_unique<FewBatches>(steps); },
                   .validation = {},
                   .test = {},
                   .embeddings = {},
                   .dense_width = 1,
                   .checkpoints = &checkpoints,
                   .interrupt = interrupt},
                  checkpoints);
  return trainer.Run(stop);
}

TEST_CASE("Steps are trained while a checkpoint is written") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {0, 2};  // Of step 0 there is nothing to save.
  checkpoints.steps_of_save = 2;
  checkpoints.waits_for_rows = 2;
  REQUIRE(Train(checkpoints, 6).ok());
  CHECK(checkpoints.events == Events{"step 0", "step 1", "begin 2", "rows noted", "step 2",
                                     "step 3", "end", "step 4", "step 5"});
  CHECK(checkpoints.waits == 1);
}

TEST_CASE("A checkpoint waits for the end of the one before it") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {1, 2};
  REQUIRE(Train(checkpoints, 4).ok());
  CHECK(checkpoints.events == Events{"step 0", "begin 1", "rows noted", "step 1",
                                     "wait for the end", "end", "begin 2", "rows noted", "step 2",
                                     "step 3"});
  CHECK(checkpoints.waits == 2);
}

TEST_CASE("A save that must end training does so at the next step") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {1};
  checkpoints.steps_of_save = 2;
  checkpoints.failure_at_end = absl::ResourceExhaustedError("the disk is full");
  const auto result = Train(checkpoints, 9);
  CHECK(result.status() == checkpoints.failure_at_end);
  CHECK(checkpoints.events == Events{"step 0", "begin 1", "rows noted", "step 1", "step 2", "end"});
}

TEST_CASE("A save fails at the mark after it and ends training there") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {1, 2};
  checkpoints.failure_at_end = absl::ResourceExhaustedError("the disk is full");
  CHECK(Train(checkpoints, 9).status() == checkpoints.failure_at_end);
  CHECK(checkpoints.events.back() == "end");
}

TEST_CASE("An interrupt does not wait for a save, and begins none") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {1, 2};
  checkpoints.ends_while_waited = false;
  std::atomic<bool> interrupt = false;
  checkpoints.on_wait = [&] { interrupt = checkpoints.events.back() == "wait for the end"; };
  const auto result = Train(checkpoints, 1'000, &interrupt);
  REQUIRE(result.ok());
  CHECK(std::ranges::count(checkpoints.events, "begin 1") == 1);
  CHECK(std::ranges::count(checkpoints.events, "begin 2") == 0);
  CHECK(checkpoints.events.back().starts_with("step "));
}

TEST_CASE("A stop ends the wait at a mark") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {1, 2};
  checkpoints.ends_while_waited = false;
  const bool waits_for_rows = GENERATE(false, true);
  if (waits_for_rows) checkpoints.waits_for_rows = 1'000'000'000;
  std::stop_source stop;
  checkpoints.on_wait = [&] {
    if (waits_for_rows || checkpoints.events.back() == "wait for the end") stop.request_stop();
  };
  CHECK(absl::IsCancelled(Train(checkpoints, 9, nullptr, stop.get_token()).status()));
}

}  // namespace
}  // namespace simurgh::testing
