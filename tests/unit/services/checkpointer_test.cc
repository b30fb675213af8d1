#include "services/nn_worker/checkpointer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Catch::Contains;
using OnError = CheckpointConfig::OnError;

constexpr std::chrono::seconds kLong{60};
constexpr std::chrono::milliseconds kNow{0};

const Status kFull = absl::ResourceExhaustedError("the disk is full");

// A checkpointer whose saves do what the test says.
class Saves {
 public:
  explicit Saves(const CheckpointConfig& config)
      : best(config),
        checkpointer(
            config, best, [this](const TrainState& state) { return WorkOf(state.steps); },
            [](uint64_t step, const std::stop_token& /*stop*/) {
              return step == 5 ? absl::OkStatus() : absl::NotFoundError("no such checkpoint");
            },
            registry) {}
  ~Saves() {
    checkpointer.Stop();
    if (!ended_) End(absl::CancelledError("the test has ended"));
  }

  // A save that notes the rows at NoteRows() and ends at End().
  Checkpointer::Work WorkOf(uint64_t step) {
    return [this, step](const OnRows& on_rows,
                        const std::stop_token& /*stop*/) -> StatusOr<SavedCheckpoint> {
      noted_.get_future().wait();
      if (notes_) on_rows({.rows = 3, .all_rows = 7});
      const Status status = end_.get_future().get();
      noted_ = {};
      end_ = {};
      if (!status.ok()) return status;
      return SavedCheckpoint{.folder = "step-" + std::to_string(step),
                             .step = step,
                             .step_time = 1'000'000,
                             .rows = 7,
                             .bytes = 99};
    };
  }
  void Begin(uint64_t step) {
    ended_ = false;
    checkpointer.Begin({.steps = step});
  }
  void NoteRows() {
    notes_ = true;
    noted_.set_value();
    CHECK(checkpointer.AwaitRows(kLong));
  }
  void End(Status status) {
    ended_ = true;
    if (!notes_.exchange(false)) noted_.set_value();
    end_.set_value(std::move(status));
    CHECK(checkpointer.AwaitIdle(kLong));
  }
  void Save(uint64_t step, Status status) {
    Begin(step);
    NoteRows();
    End(std::move(status));
  }
  std::string metrics() const { return registry.Serialize(); }

  MetricRegistry registry;
  BestCheckpoints best;

 private:
  std::promise<void> noted_;
  std::promise<Status> end_;
  std::atomic<bool> notes_ = false;
  bool ended_ = true;

 public:
  Checkpointer checkpointer;  // Its thread uses the others.
};

TEST_CASE("A save goes on after the servers have noted their rows") {
  Saves saves({});
  CHECK(saves.checkpointer.AwaitIdle(kNow));
  saves.Begin(5);
  CHECK(!saves.checkpointer.AwaitRows(kNow));
  CHECK(!saves.checkpointer.AwaitIdle(kNow));
  saves.NoteRows();
  CHECK(saves.checkpointer.AwaitRows(kNow));
  CHECK(!saves.checkpointer.AwaitIdle(kNow));
  CHECK_THAT(saves.metrics(), !Contains("simurgh_nn_checkpoint_step "));
  saves.End(absl::OkStatus());
  CHECK(saves.checkpointer.failure().ok());
  for (const char* line : {"step 5", "time_seconds 1000000", "rows 7", "failures_total 0"}) {
    CHECK_THAT(saves.metrics(), Contains("simurgh_nn_checkpoint_" + std::string(line) + "\n"));
  }
}

TEST_CASE("Only on_error: stop makes a failed save end training") {
  const auto on_error = GENERATE(OnError::kContinue, OnError::kStop);
  const bool notes_rows = GENERATE(false, true);
  Saves saves({.on_error = on_error});
  saves.Begin(5);
  if (notes_rows) saves.NoteRows();
  saves.End(kFull);
  CHECK(saves.checkpointer.AwaitRows(kNow));
  CHECK(saves.checkpointer.failure() == (on_error == OnError::kStop ? kFull : absl::OkStatus()));
  CHECK_THAT(saves.metrics(), Contains("simurgh_nn_checkpoint_failures_total 1\n"));
}

TEST_CASE("Marks by steps do not wait for a save, and those by time and by request do") {
  Saves saves({.every_steps = 10, .at_steps = {13}, .every = std::chrono::milliseconds(1)});
  Checkpointer& checkpointer = saves.checkpointer;
  while (!checkpointer.IsDue(11, false)) continue;
  CHECK(checkpointer.Request().value() == 1);
  CHECK(checkpointer.IsDue(13, false));
  CHECK(checkpointer.IsDue(20, false));
  const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  while (std::chrono::steady_clock::now() < late) {
    if (checkpointer.IsDue(12, false)) FAIL("two saves at once");
  }
  saves.Save(11, absl::OkStatus());
  saves.Save(13, absl::OkStatus());
  CHECK(!checkpointer.IsDue(21, false));  // One is announced still.
  saves.Save(20, absl::OkStatus());
  CHECK(checkpointer.IsDue(22, false));
  CHECK_THAT(saves.metrics(), !Contains("simurgh_nn_checkpoint_skipped_total 0\n"));
}

TEST_CASE("A request is due at the next step and ends with the save after it") {
  Saves saves({});
  Checkpointer& checkpointer = saves.checkpointer;
  CHECK(!checkpointer.IsDue(1, false));
  CHECK(absl::IsOutOfRange(checkpointer.Ask(1).status()));
  CHECK(absl::IsFailedPrecondition(checkpointer.Request("/other").status()));
  CHECK(checkpointer.Request().value() == 1);
  CHECK(checkpointer.IsDue(2, false));
  saves.Begin(2);
  saves.NoteRows();
  CHECK(checkpointer.Request().value() == 2);  // Too late for this save.
  const Checkpointer::Answer waiting = checkpointer.Ask(1).value();
  CHECK((!waiting.done && waiting.rows == 3 && waiting.all_rows == 7));
  saves.End(absl::OkStatus());
  CHECK(checkpointer.Ask(1).value().saved.folder == "step-2");
  CHECK(!checkpointer.Ask(2).value().done);
  CHECK(checkpointer.IsDue(3, false));
  saves.Save(3, kFull);
  CHECK(checkpointer.Ask(2).status() == kFull);
  CHECK(checkpointer.Request().value() == 3);
  checkpointer.Refuse(absl::FailedPreconditionError("training has ended"));
  CHECK(absl::IsFailedPrecondition(checkpointer.Ask(3).status()));
  CHECK(absl::IsFailedPrecondition(checkpointer.Request().status()));
}

TEST_CASE("Only the best evaluations are saved where nothing else is due") {
  Saves saves({.every_steps = 10, .keep_best = 1});
  Checkpointer& checkpointer = saves.checkpointer;
  CHECK(!checkpointer.IsDue(4, false));
  CHECK(checkpointer.IsDue(5, true));
  TrainState state{.steps = 5, .validation = EvaluationResult{.auc = 0.7}};
  CHECK(checkpointer.IsWanted(state));
  saves.Save(5, absl::OkStatus());
  CHECK(checkpointer.newest() == 5);
  saves.best.Add({.step = 5, .metrics = {{"validation_auc", 0.7}, {"validation_logloss", 0.2}}});
  CHECK(checkpointer.IsDue(10, false));
  CHECK(checkpointer.IsDue(15, true));
  state.validation->auc = 0.6;
  for (const uint64_t step : {10, 15}) {
    state.steps = step;
    CHECK(checkpointer.IsWanted(state) == (step == 10));
  }
  CHECK(checkpointer.BestStep(state) == 5);
  state.validation->auc = 0.8;
  CHECK(checkpointer.BestStep(state) == 15);
  Saves none({.keep_best = 0});
  CHECK(!none.checkpointer.IsDue(5, true));
  CHECK(!none.checkpointer.BestStep(state));
}

TEST_CASE("A load ends training if it fails") {
  Saves saves({});
  saves.checkpointer.BeginLoad(5);
  CHECK(saves.checkpointer.AwaitIdle(kLong));
  CHECK(saves.checkpointer.failure().ok());
  saves.checkpointer.BeginLoad(6);
  CHECK(saves.checkpointer.AwaitIdle(kLong));
  CHECK(absl::IsNotFound(saves.checkpointer.failure()));
}

// Runs SaveLast with outcomes of the attempts; a request or a stop follows each failure.
struct Last {
  Status Run(std::vector<Status> outcomes, OnError on_error, bool stops,
             const Status& alive = absl::OkStatus()) {
    MetricRegistry registry;
    BestCheckpoints best({});
    Checkpointer checkpointer({.on_error = on_error}, best, nullptr, nullptr, registry);
    checkpointer.Refuse(absl::FailedPreconditionError("not now"));
    const auto work = [&](const std::string& directory) {
      return [&, directory](const OnRows& /*on_rows*/,
                            const std::stop_token& /*stop*/) -> StatusOr<SavedCheckpoint> {
        CHECK(attempts < static_cast<int>(outcomes.size()));
        CHECK(directory == (attempts == 0 ? "" : "/other"));
        const Status status = outcomes[attempts++];
        if (!status.ok()) return status;
        return SavedCheckpoint{.folder = "step-9"};
      };
    };
    std::stop_source stop;
    int kept_alive = 0;
    const auto keep_alive = [&] {
      ++kept_alive;
      if (stops) {
        stop.request_stop();
      } else {
        CHECK(checkpointer.Request("other").status() ==
              absl::InvalidArgumentError("--directory: 'other' is not absolute; begin it with /"));
        request = checkpointer.Request("/other").value();
      }
      return alive;
    };
    Status status = checkpointer.SaveLast(work, keep_alive, stop.get_token());
    CHECK(kept_alive == (stops || !alive.ok() ? 1 : attempts - 1));
    if (request > 0 && alive.ok())
      CHECK(checkpointer.Ask(request).value().saved.folder == "step-9");
    return status;
  }

  int attempts = 0;
  uint64_t request = 0;
};

TEST_CASE("A failed save of the end is repeated at each request") {
  Last last;
  CHECK(last.Run({kFull, kFull, absl::OkStatus()}, OnError::kContinue, false).ok());
  CHECK(last.attempts == 3);
  CHECK(last.request == 2);
}

TEST_CASE("A failed save of the end is final if a request could not repeat it") {
  MetricRegistry registry;
  Last stopped;
  CHECK(stopped.Run({kFull}, OnError::kContinue, true) == kFull);
  BestCheckpoints best({});
  Checkpointer alone({}, best, nullptr, nullptr, registry);
  const auto fails = [](const std::string& /*directory*/) {
    return [](auto&&...) { return kFull; };
  };
  CHECK(alone.SaveLast(fails, nullptr, {}) == kFull);
  Last strict;
  CHECK(strict.Run({kFull}, OnError::kStop, false) == kFull);
  Last replaced;
  const Status newer = absl::FailedPreconditionError("a newer start has taken over");
  CHECK(replaced.Run({kFull}, OnError::kContinue, false, newer) == newer);
  Last lost;
  const Status restarted = absl::DataLossError("a server was restarted");
  CHECK(lost.Run({restarted}, OnError::kContinue, false) == restarted);
}

}  // namespace
}  // namespace simurgh
