// What the time line of training shows: which spans overlap is forced by a cluster whose answers
// wait for calls, never by time.

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "telemetry/timeline.h"
#include "tests/support/trace_spans.h"
#include "tests/unit/train/equal_ranks.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"
#include "train/gradient_reducer.h"
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 6;

std::map<std::string, TraceSpans> SpansOf(Timeline& timeline) {
  std::istringstream json(timeline.Finish("trainer"));
  return ReadTrace(json);
}

// Answers at once, or when the next call has come.
class ChainPort : public ReadyPort {
 public:
  // kPulls: a pull is answered when the next one has been called for. kPushes: a push is, and then
  // that pull, which awaits it.
  enum class Waits { kNothing, kPulls, kPushes };

  explicit ChainPort(Waits waits) : waits_(waits) {}

  void Pull(BatchReference /*batch*/, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    std::ranges::fill(embeddings.floats(), 0.5F);
    if (options.needed.awaited_steps > 0) {
      {
        const MutexLock lock(mutex_);
        awaiting_ = std::move(done);
      }
      return AnswerBoth();
    }
    const bool waits = waits_ == Waits::kPulls && options.step_id.step + 1 < kSteps;
    std::function<void(StatusOr<PullAnswer>)> earlier;
    {
      const MutexLock lock(mutex_);
      earlier = std::exchange(waiting_, waits ? done : nullptr);
    }
    if (earlier) earlier(PullAnswer());
    if (!waits) done(PullAnswer());
  }

  void Push(BatchReference /*batch*/, StepId step_id, GradientBuffer /*gradients*/,
            std::function<void(Status)> done) override {
    if (waits_ != Waits::kPushes || step_id.step + 1 == kSteps) return done(absl::OkStatus());
    {
      const MutexLock lock(mutex_);
      push_ = std::move(done);
    }
    AnswerBoth();
  }

 private:
  void AnswerBoth() {
    std::function<void(Status)> push;
    std::function<void(StatusOr<PullAnswer>)> pull;
    {
      const MutexLock lock(mutex_);
      if (!push_ || !awaiting_) return;
      push = std::exchange(push_, nullptr);
      pull = std::exchange(awaiting_, nullptr);
    }
    push(absl::OkStatus());
    pull(PullAnswer());
  }

  const Waits waits_;
  Mutex mutex_;
  std::function<void(Status)> push_ ABSL_GUARDED_BY(mutex_);
  std::function<void(StatusOr<PullAnswer>)> awaiting_ ABSL_GUARDED_BY(mutex_);
  std::function<void(StatusOr<PullAnswer>)> waiting_ ABSL_GUARDED_BY(mutex_);
};

using Waits = ChainPort::Waits;

TrainingConfig ConfigOf(TrainingConfig::Mode mode, uint32_t staleness) {
  TrainingConfig config{.mode = mode, .batch_size = FewBatches::kSamples, .staleness = staleness};
  config.progress_interval = std::chrono::hours(1);
  return config;
}

std::map<std::string, TraceSpans> TraceOf(TrainingConfig::Mode mode, uint32_t staleness,
                                          Waits waits) {
  const auto network = LinearNetwork({1});
  ChainPort port(waits);
  const auto timeline = Timeline::Record();
  const auto collective = NewLocalCollective();
  TrainObserver observer;
  Trainer trainer(ConfigOf(mode, staleness), /*run=*/1, port, *network, *collective,
                  {.train = [](uint32_t) { return std::make_unique<FewBatches>(kSteps); },
                   .validation = {},
                   .test = {},
                   .embeddings = EmbeddingCheck({{"a", 3}}, {}),
                   .dense_width = 1},
                  observer);
  const auto result = trainer.Run({});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());
  REQUIRE(result->steps == kSteps);
  return SpansOf(*timeline);
}

constexpr char kCompute[] = "forward and backward";

TEST_CASE("Every stage of every step is in the trace once") {
  auto spans = TraceOf(TrainingConfig::Mode::kHybrid, 2, Waits::kPulls);
  for (const char* stage : {"read", "submit", "pull", kCompute, "push", "dense step"}) {
    CAPTURE(stage);
    for (uint64_t step = 0; step < kSteps; ++step) CHECK(spans[stage][step].size() == 1);
  }
}

TEST_CASE("hybrid: a pull overlaps the computation and push of the previous batch") {
  auto spans = TraceOf(TrainingConfig::Mode::kHybrid, 2, Waits::kPulls);
  for (uint64_t step = 0; step + 2 < kSteps; ++step) {
    CAPTURE(step);
    const TraceSpan& next_pull = spans["pull"][step + 1].at(0);
    // The pull is answered when the one after it is called for. That follows the push, and the push
    // may end before the computation does.
    CHECK(next_pull.begin <= spans[kCompute][step].at(0).begin);
    CHECK(next_pull.Overlaps(spans[kCompute][step].at(0)));
    CHECK(next_pull.Contains(spans["push"][step].at(0)));
    CHECK(next_pull.Overlaps(spans["pull"][step].at(0)));
  }
}

TEST_CASE("sync: no batch is computed before the one before it is pushed, but its pull is sent") {
  auto spans = TraceOf(TrainingConfig::Mode::kSync, 1, Waits::kPushes);
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const TraceSpan& compute = spans[kCompute][step].at(0);
    const TraceSpan& push = spans["push"][step].at(0);
    CHECK(spans["pull"][step].at(0).end <= compute.begin);
    // The gradients of the embeddings are complete before those of the weights.
    CHECK(compute.begin <= push.begin);
    CHECK(push.begin <= compute.end);
    if (step + 1 == kSteps) continue;
    const TraceSpan& next_pull = spans["pull"][step + 1].at(0);
    CHECK(next_pull.begin <= push.end);
    CHECK(push.end <= next_pull.end);
    CHECK(push.end <= spans[kCompute][step + 1].at(0).begin);
  }
}

TEST_CASE("naive_hybrid: a push follows the dense step, and the next pull the push's beginning") {
  auto spans = TraceOf(TrainingConfig::Mode::kNaiveHybrid, 4, Waits::kNothing);
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const TraceSpan& push = spans["push"][step].at(0);
    CHECK(spans["dense step"][step].at(0).end <= push.begin);
    if (step + 1 < kSteps) CHECK(push.begin <= spans["pull"][step + 1].at(0).begin);
  }
}

// Signals when a sum has begun.
class WatchedRanks final : public EqualRanks {
 public:
  using EqualRanks::Sum;

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override {
    {
      const MutexLock lock(mutex_);
      ++sums_;
      changed_.NotifyAll();
    }
    return EqualRanks::Sum(channel, values, precision, residual, meanwhile);
  }

  void AwaitSums(size_t count) {
    const MutexLock lock(mutex_);
    while (sums_ < count) changed_.Wait(mutex_);
  }
  size_t sums() {
    const MutexLock lock(mutex_);
    return sums_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t sums_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_CASE("Dense gradients are summed bucket by bucket during the backward pass") {
  constexpr size_t kBuckets = 3;
  const bool overlap = GENERATE(true, false);
  std::vector<float> gradients(12, 1.0F);
  WatchedRanks ranks;
  const auto timeline = Timeline::Record();
  {
    GradientReducer reducer(ranks, gradients, {.bucket_bytes = 16}, overlap);
    reducer.BeginStep(5);
    const auto begin = Timeline::Clock::now();
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      reducer.OnGradients(8 - 4 * bucket, 4);
      // Before the next gradients are there.
      if (overlap && bucket + 1 < kBuckets) ranks.AwaitSums(bucket + 1);
    }
    CHECK(ranks.sums() == (overlap ? kBuckets - 1 : 0));
    Timeline::Add({.name = "backward", .begin = begin, .end = Timeline::Clock::now(), .step = 5});
    REQUIRE(reducer.Finish([] {}).ok());
  }
  CHECK(gradients == std::vector<float>(12, 2.0F));
  auto spans = SpansOf(*timeline);
  const TraceSpan backward = spans["backward"][5].at(0);
  const std::vector<TraceSpan>& sums = spans["sum"][5];
  REQUIRE(sums.size() == kBuckets);
  CHECK(std::ranges::count_if(sums, [&](const TraceSpan& sum) { return sum.Overlaps(backward); }) ==
        (overlap ? kBuckets - 1 : 0));
}

TEST_CASE(
    "What is left to do goes on beside the last sum, unless nothing is to go on beside sums") {
  const bool overlap = GENERATE(true, false);
  std::vector<float> gradients(4, 1.0F);
  WatchedRanks ranks;
  GradientReducer reducer(ranks, gradients, {.bucket_bytes = 16}, overlap);
  reducer.BeginStep(0);
  reducer.OnGradients(0, 4);
  CHECK(ranks.sums() == 0);
  size_t sums_begun = 0;
  REQUIRE(reducer.Finish([&] { sums_begun = ranks.sums(); }).ok());
  CHECK(sums_begun == (overlap ? 1 : 0));
  CHECK(ranks.sums() == 1);
}

}  // namespace
}  // namespace simurgh::testing
