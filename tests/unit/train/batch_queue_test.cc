#include "train/batch_queue.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

namespace simurgh {
namespace {

constexpr uint64_t kFirst = 500;

// A queue whose calls are answered at once, and a trainer that computes what it can take.
class Simulation {
 public:
  explicit Simulation(uint32_t row_age_steps = 0)
      : queue_({.staleness = 3,
                .row_age_steps = row_age_steps,
                .reproducible = true,
                .first_step = kFirst}) {}

  void Feed(bool checkpoint_before = false) {
    Batch batch;
    batch.checkpoint_before = checkpoint_before;
    queue_.Add(std::move(batch));
    Run();
  }
  void Mark() {
    queue_.Mark();
    Run();
  }
  void EndInput() {
    queue_.EndInput();
    Run();
  }
  void Lift() {
    queue_.Lift();
    Run();
  }

  bool at_mark() const { return queue_.at_mark(); }
  bool drained() const { return queue_.all_acknowledged(); }
  // The pulls "l" and pushes "s" since the last call, in their order, as "l0 s0".
  std::string TakeCalls() { return std::exchange(calls_, ""); }
  uint32_t last_age() const { return last_age_; }

 private:
  void Run() {
    bool works = true;
    while (works) {
      const auto started = queue_.StartCalls(std::chrono::steady_clock::now());
      works = !started.empty();
      for (const StartedCall& call : started) Answer(call);
      PendingBatch* const next = queue_.NextForTrainer();
      if (next == nullptr || !next->is_pulled()) continue;
      queue_.Take(*next);
      queue_.Finish();
      works = true;
    }
  }

  void Answer(const StartedCall& call) {
    const uint64_t step = call.batch->step - kFirst;
    switch (call.call) {
      case BatchCall::kSubmit:
        return queue_.OnSubmitted(*call.batch, {});
      case BatchCall::kPull:
        absl::StrAppend(&calls_, "l", step, " ");
        last_age_ = call.row_age_steps;
        return queue_.OnPulled(*call.batch, {});
      case BatchCall::kPush:
        absl::StrAppend(&calls_, "s", step, " ");
        return queue_.ReleaseBatch(*call.batch);
    }
  }

  BatchQueue queue_;
  std::string calls_;
  uint32_t last_age_ = 0;
};

TEST_CASE("Without a mark a push waits for later pulls") {
  Simulation run;
  for (int i = 0; i < 5; ++i) run.Feed();
  CHECK(run.TakeCalls() == "l0 l1 l2 s0 l3 s1 l4 s2 ");
  CHECK_FALSE(run.at_mark());
  CHECK_FALSE(run.drained());
  run.EndInput();
  CHECK(run.TakeCalls() == "s3 s4 ");
}

TEST_CASE("At a mark all pushes before it end, and no pull from it on has begun") {
  Simulation run;
  for (int i = 0; i < 3; ++i) run.Feed();
  run.Feed(true);
  run.Feed();
  run.Feed();
  CHECK(run.TakeCalls() == "l0 l1 l2 s0 s1 s2 ");
  CHECK(run.at_mark());
  CHECK(run.drained());
  run.Lift();
  CHECK(run.TakeCalls() == "l3 l4 l5 s3 ");
  CHECK_FALSE(run.at_mark());
  run.EndInput();
  CHECK(run.TakeCalls() == "s4 s5 ");
}

TEST_CASE("Marks may follow each other") {
  Simulation run;
  run.Feed();
  run.Feed(true);
  run.Feed(true);
  CHECK(run.TakeCalls() == "l0 s0 ");
  run.Lift();
  CHECK(run.TakeCalls() == "l1 s1 ");
  CHECK(run.at_mark());
  run.EndInput();
  CHECK(run.at_mark());
  run.Lift();
  CHECK(run.TakeCalls() == "l2 s2 ");
  CHECK(run.drained());
}

TEST_CASE("A mark needs no batch behind it") {
  Simulation run;
  run.Feed();
  run.Feed();
  run.TakeCalls();
  CHECK_FALSE(run.at_mark());
  CHECK_FALSE(run.drained());
  run.Mark();
  CHECK(run.at_mark());
  CHECK(run.TakeCalls() == "s0 s1 ");
  CHECK(run.drained());
  run.Feed();
  CHECK(run.at_mark());
  CHECK(run.TakeCalls().empty());
  run.Lift();
  CHECK_FALSE(run.at_mark());
  CHECK(run.TakeCalls() == "l2 ");
}

TEST_CASE("No step reads rows that were cached before a checkpoint") {
  Simulation run(/*row_age_steps=*/2);
  std::string ages;
  for (int i = 0; i < 8; ++i) {
    run.Feed(/*checkpoint_before=*/i == 4);
    if (run.at_mark()) run.Lift();
    absl::StrAppend(&ages, run.last_age());
  }
  // The run itself begins at a checkpoint.
  CHECK(ages == "00220022");
}

}  // namespace
}  // namespace simurgh
