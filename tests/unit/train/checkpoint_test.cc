// Saving while training continues, with a fake of what saves.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"
#include "train/trainer.h"

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
  Status failure_of_load;
  std::map<uint64_t, double> scores;  // By step, of evaluations. If not empty, the best is kept.
  std::function<void()> on_wait = [] {};

  bool IsDue(uint64_t step, bool evaluates) override {
    return due.contains(step) || (!scores.empty() && evaluates);
  }
  bool IsWanted(const TrainState& state) override {
    return due.contains(state.steps) || IsBetter(state);
  }
  bool keeps_best() override { return !scores.empty(); }
  std::optional<uint64_t> BestStep(const TrainState& state) override {
    if (IsBetter(state)) return state.steps;
    return best_ > 0 ? std::optional(best_) : std::nullopt;
  }
  uint64_t newest() override { return newest_; }
  void BeginLoad(uint64_t step) override {
    CHECK(!saving_);
    events.push_back("load " + std::to_string(step));
    failure_ = failure_of_load;
  }
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
    saved_ = state;
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
  void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& /*result*/) override {
    events.push_back((set == EvaluationSet::kTest ? "test " : "validate ") + std::to_string(step));
  }
  void OnCheckpoint(std::chrono::nanoseconds waited) override {
    CHECK(waited.count() > 0);
    ++waits;
  }

  Events events;
  bool fails = false;  // Saves leave no checkpoint.
  int waits = 0;

 private:
  void End() {
    saving_ = false;
    events.emplace_back("end");
    failure_ = failure_at_end;
    if (fails) return;
    newest_ = saved_.steps;
    if (IsBetter(saved_)) best_ = saved_.steps;
  }
  bool IsBetter(const TrainState& state) {
    return state.validation && scores.contains(state.steps) &&
           scores[state.steps] > (best_ > 0 ? scores[best_] : 0);
  }

  TrainState saved_;
  uint64_t newest_ = 0;
  uint64_t best_ = 0;
  bool saving_ = false;
  uint64_t steps_ = 0;
  Status failure_;
};

StatusOr<TrainResult> Train(FakeCheckpoints& checkpoints, OpenEpoch train,
                            const std::atomic<bool>* interrupt = nullptr,
                            const std::stop_token& stop = {}, uint64_t evaluate_every_steps = 0,
                            const EarlyStoppingConfig& stopping = {}) {
  const auto network = LinearNetwork({1});
  TrainingConfig config{.batch_size = FewBatches::kSamples};
  config.evaluate_every_steps = evaluate_every_steps;
  config.early_stopping = stopping;
  config.progress_interval = std::chrono::hours(1);
  const OpenReader evaluated = [] { return std::make_unique<FewBatches>(1); };
  ReadyPort port;
  const auto collective = NewLocalCollective();
  Trainer trainer(config, /*run=*/1, port, *network, *collective,
                  {.train = std::move(train),
                   .validation = evaluate_every_steps > 0 ? evaluated : OpenReader(),
                   .test = evaluate_every_steps > 0 ? evaluated : OpenReader(),
                   .embeddings = {},
                   .dense_width = 1,
                   .checkpoints = &checkpoints,
                   .restore =
                       [&](uint64_t step) {
                         checkpoints.events.push_back("restore " + std::to_string(step));
                         return std::vector<Calibration>();
                       },
                   .interrupt = interrupt},
                  checkpoints);
  return trainer.Run(stop);
}

StatusOr<TrainResult> Train(FakeCheckpoints& checkpoints, uint64_t steps,
                            const std::atomic<bool>* interrupt = nullptr,
                            const std::stop_token& stop = {}, uint64_t evaluate_every_steps = 0,
                            const EarlyStoppingConfig& stopping = {}) {
  return Train(
      checkpoints, [steps](uint32_t) { return std::make_unique<FewBatches>(steps); }, interrupt,
      stop, evaluate_every_steps, stopping);
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

// Two batches, and a third one once the model after them has been saved.
class PausingBatches final : public FewBatches {
 public:
  explicit PausingBatches(const std::atomic<int>& rows_noted)
      : FewBatches(3), rows_noted_(rows_noted) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (given_++ < 2 || rows_noted_ > 0) return FewBatches::Next();
    return Batch{.idle = true};
  }

 private:
  const std::atomic<int>& rows_noted_;
  int given_ = 0;
};

TEST_CASE("A checkpoint does not wait for the next batch of a quiet stream") {
  FakeCheckpoints checkpoints;
  checkpoints.due = {2};
  checkpoints.steps_of_save = 1;
  std::atomic<int> noted = 0;
  checkpoints.on_wait = [&] { noted += checkpoints.events.back() == "begin 2" ? 1 : 0; };
  REQUIRE(
      Train(checkpoints, [&](uint32_t) { return std::make_unique<PausingBatches>(noted); }).ok());
  CHECK(checkpoints.events == Events{"step 0", "step 1", "begin 2", "rows noted", "step 2", "end"});
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
  checkpoints.steps_of_save = 1'000;  // Batches that were read ahead are trained on.
  checkpoints.ends_while_waited = false;
  std::atomic<bool> interrupt = false;
  checkpoints.on_wait = [&] { interrupt = checkpoints.events.back() == "wait for the end"; };
  const auto result = Train(checkpoints, 1'000, &interrupt);
  REQUIRE(result.ok());
  CHECK(std::ranges::count(checkpoints.events, "begin 1") == 1);
  CHECK(std::ranges::count(checkpoints.events, "begin 2") == 0);
  CHECK(std::ranges::count(checkpoints.events, "end") == 0);
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

StatusOr<TrainResult> TrainBest(FakeCheckpoints& checkpoints, uint64_t steps,
                                const EarlyStoppingConfig& stopping = {}) {
  return Train(checkpoints, steps, nullptr, {}, /*evaluate_every_steps=*/2, stopping);
}

TEST_CASE("An evaluation is of a checkpoint's step, and the best one is tested") {
  FakeCheckpoints checkpoints;
  checkpoints.scores = {{2, 0.7}, {4, 0.6}};
  checkpoints.steps_of_save = 2;
  SECTION("an earlier one, whose rows replace those of the last step once it is saved") {
    const auto result = TrainBest(checkpoints, 5);
    REQUIRE(result.ok());
    CHECK(result->best_step == 2);
    CHECK(result->state.steps == 5);
    CHECK(checkpoints.events == Events{"step 0", "step 1", "validate 2", "begin 2", "rows noted",
                                       "step 2", "step 3", "end", "validate 4", "step 4", "begin 5",
                                       "wait for the end", "end", "load 2", "restore 2", "test 2"});
  }
  SECTION("which is saved at a mark for another reason") {
    checkpoints.due = {4};
    REQUIRE(TrainBest(checkpoints, 5).ok());
    CHECK(std::ranges::count(checkpoints.events, "begin 4") == 1);
    CHECK(checkpoints.events.back() == "test 2");
  }
  SECTION("the last one, which is saved later") {
    checkpoints.scores[4] = 0.8;
    const auto result = TrainBest(checkpoints, 4);
    REQUIRE(result.ok());
    CHECK(result->best_step == 4);
    CHECK(result->state.validation.has_value());
    CHECK(checkpoints.events == Events{"step 0", "step 1", "validate 2", "begin 2", "rows noted",
                                       "step 2", "step 3", "end", "validate 4", "test 4"});
  }
  SECTION("an earlier one where training stops early") {
    const auto result = TrainBest(checkpoints, 50, {.patience = 1, .min_improvement = 1});
    REQUIRE(result.ok());
    CHECK(result->stopped_early);
    CHECK(result->state.steps == 4);
    CHECK(checkpoints.events.back() == "test 2");
    CHECK(std::ranges::count(checkpoints.events, "begin 4") == 1);
  }
}

TEST_CASE("A better evaluation than that of the save under way waits for its end") {
  FakeCheckpoints checkpoints;
  checkpoints.scores = {{2, 0.7}, {4, 0.6}, {6, 0.8}};
  checkpoints.steps_of_save = 99;
  const auto result = TrainBest(checkpoints, 7);
  REQUIRE(result.ok());
  // At 4, none of the saved ones is better.
  CHECK(std::ranges::count(checkpoints.events, "begin 4") == 0);
  CHECK(std::ranges::count(checkpoints.events, "wait for the end") == 3);
  CHECK(checkpoints.events.back() == "test 6");
}

TEST_CASE("The rows of a last step that cannot be saved stay") {
  FakeCheckpoints checkpoints;
  checkpoints.scores = {{2, 0.7}};
  checkpoints.steps_of_save = 1;
  checkpoints.on_wait = [&] {
    checkpoints.fails = std::ranges::count(checkpoints.events, "begin 5") > 0;
  };
  const auto result = TrainBest(checkpoints, 5);
  REQUIRE(result.ok());
  CHECK(!result->best_step);
  CHECK(std::ranges::count(checkpoints.events, "load 2") == 0);
  CHECK(checkpoints.events.back() == "test 5");
}

TEST_CASE("A best checkpoint that cannot be loaded is an error that a new start would meet again") {
  FakeCheckpoints checkpoints;
  checkpoints.scores = {{2, 0.7}};
  checkpoints.failure_of_load = absl::DataLossError("the checksum differs");
  CHECK(TrainBest(checkpoints, 5).status() ==
        absl::FailedPreconditionError("the checksum differs"));
}

// Sets a flag at its end.
class FlaggingBatches : public FewBatches {
 public:
  FlaggingBatches(uint64_t count, std::atomic<bool>& at_end) : FewBatches(count), at_end_(at_end) {}
  StatusOr<std::optional<Batch>> Next() override {
    auto batch = FewBatches::Next();
    if (batch.ok() && !*batch) at_end_ = true;
    return batch;
  }

 private:
  std::atomic<bool>& at_end_;
};

TEST_CASE("An interrupt at the end of an epoch keeps its evaluation") {
  const auto network = LinearNetwork({1});
  TrainingConfig config{.batch_size = FewBatches::kSamples, .epochs = 2};
  config.evaluate_every_epochs = 1;
  config.progress_interval = std::chrono::hours(1);
  std::atomic<bool> interrupt = false;
  ReadyPort port;
  FakeCheckpoints observer;
  const auto collective = NewLocalCollective();
  Trainer trainer(
      config, /*run=*/1, port, *network, *collective,
      {.train = [&](uint32_t) { return std::make_unique<FlaggingBatches>(3, interrupt); },
       .validation = [] { return std::make_unique<FewBatches>(1); },
       .test = {},
       .embeddings = {},
       .dense_width = 1,
       .interrupt = &interrupt},
      observer);
  const auto result = trainer.Run({});
  REQUIRE(result.ok());
  CHECK(result->interrupted);
  CHECK(result->state.epochs == 1);
  CHECK(result->state.validation.has_value());
  CHECK(observer.events == Events{"step 0", "step 1", "step 2", "validate 3"});
}

}  // namespace
}  // namespace simurgh::testing
