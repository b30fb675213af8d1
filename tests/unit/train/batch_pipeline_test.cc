#include "train/batch_pipeline.h"

#include <algorithm>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/waiting.h"
#include "tests/unit/train/random_port.h"
#include "tests/unit/train/ready_port.h"

namespace simurgh {
namespace {

constexpr size_t kWidth = 3;

BlockPool& TestBlocks() {
  static const std::unique_ptr<BlockPool> blocks = NewBlockPool(kWidth);
  return *blocks;
}

Batch BatchOf(size_t samples) {
  auto sparse = std::make_shared<CompactBatch>();
  sparse->batch_size = static_cast<uint32_t>(samples);
  return {
      .sparse = sparse,
      .dense = {
          .batch_size = samples, .width = 0, .values = {}, .labels = std::vector<float>(samples)}};
}

// Feeds `steps` batches from a separate thread.
class Feeder {
 public:
  Feeder(BatchPipeline& pipeline, uint64_t steps, Status end = absl::OkStatus())
      : thread_([&pipeline, steps, end] {
          for (uint64_t step = 0; step < steps; ++step) {
            if (!pipeline.Feed(BatchOf(1 + step % 3))) break;
          }
          pipeline.EndInput(end);
        }) {}
  ~Feeder() { thread_.join(); }

 private:
  std::thread thread_;
};

// A trainer whose gradient is the embedding + 0.5. Steps done, or the pipeline's error.
StatusOr<uint64_t> Train(BatchPipeline& pipeline) {
  uint64_t steps = 0;
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) break;
    CHECK(pulled->step == steps);
    CHECK(std::ranges::all_of(pulled->block->embeddings.flat(),
                              [&](float e) { return e == static_cast<float>(steps); }));
    std::ranges::transform(pulled->block->embeddings.flat(),
                           pulled->block->gradients.flat().begin(),
                           [](float e) { return e + 0.5F; });
    pipeline.Finish();
    ++steps;
  }
  SIMURGH_RETURN_IF_ERROR(pipeline.WaitForPushes());
  return steps;
}

PipelineOptions OptionsFor(const RandomPort::Options& port) {
  return {.run = 7,
          .staleness = port.staleness,
          .reproducible = port.reproducible,
          .awaits_pushes = port.awaits_pushes,
          .blocks = &TestBlocks(),
          .queue_batches = 4};
}

void RunAndCheck(const RandomPort::Options& options, uint64_t steps) {
  CAPTURE(options.seed, options.staleness, options.reproducible, options.failure_rate);
  RandomPort port(options);
  {
    BatchPipeline pipeline(port, OptionsFor(options));
    const Feeder feeder(pipeline, steps);
    const StatusOr<uint64_t> done = Train(pipeline);
    CAPTURE(done.status().ToString());
    REQUIRE(done.ok());
    CHECK(*done == steps);
  }
  CHECK(port.violations() == std::vector<std::string>{});
  CHECK(port.acknowledged().size() == steps);
  CHECK(port.max_outstanding() <= options.staleness + (options.awaits_pushes ? 1 : 0));
  CHECK((options.awaits_pushes && steps > 3) == (port.awaiting_pulls() > 0));
  CHECK((options.failures.empty() || port.failures() > 0));
}

TEST_CASE("Free running: every step is pushed once and staleness is bounded") {
  const uint32_t staleness = GENERATE(1, 2, 4, 10);
  const uint64_t seed = GENERATE(1, 2, 3);
  RunAndCheck({.seed = seed, .staleness = staleness}, 200);
}

TEST_CASE("Reproducible: pull t sees exactly the pushes up to t - staleness") {
  const uint32_t staleness = GENERATE(1, 2, 4, 10);
  const uint64_t seed = GENERATE(1, 2, 3);
  const uint64_t steps = GENERATE(0, 1, 3, 200);
  RunAndCheck({.seed = seed, .staleness = staleness, .reproducible = true}, steps);
}

TEST_CASE("Awaiting: a pull is sent before the last push, and sees it") {
  const bool reproducible = GENERATE(false, true);
  const uint64_t seed = GENERATE(1, 2, 3);
  RunAndCheck({.seed = seed, .reproducible = reproducible, .awaits_pushes = true}, 200);
}

TEST_CASE("Failures that may pass are retried until all is done, in the same order") {
  const bool reproducible = GENERATE(false, true);
  const uint32_t staleness = GENERATE(1, 4);
  const bool awaits = staleness == 1 && GENERATE(false, true);
  RunAndCheck({.seed = 11,
               .staleness = staleness,
               .reproducible = reproducible,
               .awaits_pushes = awaits,
               .failure_rate = 0.1,
               .failures = {absl::StatusCode::kUnavailable, absl::StatusCode::kNotFound,
                            absl::StatusCode::kAborted, absl::StatusCode::kDeadlineExceeded,
                            absl::StatusCode::kResourceExhausted}},
              60);
}

TEST_CASE(
    "Rows of some steps ago: a batch's staleness is what its rows lack at most, and bounded") {
  const uint32_t staleness = GENERATE(1, 3);
  const uint32_t row_age = GENERATE(1, 5);
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(staleness, row_age, seed);
  RandomPort port({.seed = seed,
                   .staleness = staleness,
                   .row_age_steps = row_age,
                   .failure_rate = 0.1,
                   .failures = {absl::StatusCode::kNotFound, absl::StatusCode::kAborted}});
  std::vector<uint32_t> reported;
  {
    BatchPipeline pipeline(port, {.staleness = staleness,
                                  .row_age_steps = row_age,
                                  .blocks = &TestBlocks(),
                                  .queue_batches = 4});
    const Feeder feeder(pipeline, 100);
    while (true) {
      const auto pulled = pipeline.Next();
      REQUIRE(pulled.ok());
      if (*pulled == nullptr) break;
      reported.push_back((*pulled)->staleness);
      const auto step = static_cast<float>((*pulled)->step);
      std::ranges::fill((*pulled)->block->gradients.flat(), step + 0.5F);
      pipeline.Finish();
    }
    REQUIRE(pipeline.WaitForPushes().ok());
  }
  CHECK(port.violations() == std::vector<std::string>{});
  REQUIRE(reported.size() == 100);
  uint32_t most = 0;
  for (uint64_t step = 0; step < reported.size(); ++step) {
    CAPTURE(step);
    CHECK(reported[step] >= port.lacking().at(step));
    CHECK(reported[step] < staleness + row_age);
    most = std::max(most, reported[step]);
  }
  CHECK(most >= row_age);
}

// Counts the blocks that are leased at once.
class CountingBlocks : public BlockPool {
 public:
  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    const auto block = TestBlocks().Lease(rows, with_gradients);
    const MutexLock lock(mutex_);
    max_leased_ = std::max(max_leased_, ++leased_);
    return {block.get(), [this, block](BatchBlock*) {
              const MutexLock release_lock(mutex_);
              --leased_;
            }};
  }
  int max_leased() const {
    const MutexLock lock(mutex_);
    return max_leased_;
  }

 private:
  mutable Mutex mutex_;
  int leased_ ABSL_GUARDED_BY(mutex_) = 0;
  int max_leased_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_CASE("A trainer may have the next batch before he is done with the one at hand") {
  const bool reproducible = GENERATE(false, true);
  constexpr uint32_t kStaleness = 3;
  constexpr uint64_t kSteps = 100;
  CAPTURE(reproducible);
  CountingBlocks blocks;
  RandomPort port({.staleness = kStaleness, .reproducible = reproducible});
  {
    BatchPipeline pipeline(port, {.run = 7,
                                  .staleness = kStaleness,
                                  .reproducible = reproducible,
                                  .blocks = &blocks,
                                  .queue_batches = 8});
    const Feeder feeder(pipeline, kSteps);
    const PulledBatch* ahead = nullptr;
    for (uint64_t step = 0;; ++step) {
      const PulledBatch* pulled = ahead;
      if (pulled == nullptr) {
        const auto next = pipeline.Next();
        REQUIRE(next.ok());
        pulled = *next;
      }
      if (pulled == nullptr) break;
      CHECK(pulled->step == step);
      // A batch always arrives, because at most `staleness` are in flight.
      REQUIRE(testing::Eventually([&] {
        ahead = pipeline.TakeNext();
        return ahead != nullptr || step + 1 >= kSteps;
      }));
      if (ahead != nullptr) {
        CHECK(ahead->step == step + 1);
        CHECK(std::ranges::all_of(ahead->block->embeddings.flat(),
                                  [&](float e) { return e == static_cast<float>(step + 1); }));
      }
      std::ranges::fill(pulled->block->gradients.flat(), static_cast<float>(step) + 0.5F);
      pipeline.Finish();
    }
    REQUIRE(pipeline.WaitForPushes().ok());
  }
  CHECK(port.violations() == std::vector<std::string>{});
  CHECK(port.acknowledged().size() == kSteps);
  // A block whose push was acknowledged may be let go a little later.
  CHECK(blocks.max_leased() <= 2 * static_cast<int>(kStaleness));
}

TEST_CASE("A failure that cannot pass ends the run with its message") {
  RandomPort port({.staleness = 2, .failure_rate = 0.3, .failures = {absl::StatusCode::kDataLoss}});
  BatchPipeline pipeline(port, {.staleness = 2, .blocks = &TestBlocks()});
  const Feeder feeder(pipeline, 1000);
  const StatusOr<uint64_t> done = Train(pipeline);
  REQUIRE(done.status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(done.status().message()),
             Catch::Contains("step ") && Catch::Contains("drawn"));
}

TEST_CASE("A failure that lasts ends the run after the retry deadline") {
  RandomPort port({.failure_rate = 1, .failures = {absl::StatusCode::kUnavailable}});
  BatchPipeline pipeline(
      port, {.blocks = &TestBlocks(), .retry_deadline = std::chrono::milliseconds(100)});
  const Feeder feeder(pipeline, 3);
  const StatusOr<uint64_t> done = Train(pipeline);
  REQUIRE(done.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(done.status().message()), Catch::Contains("training.retry_deadline"));
}

TEST_CASE("Waiting for room is no failure, however long it takes") {
  RandomPort port({.refused_submissions = 5});
  BatchPipeline pipeline(port,
                         {.blocks = &TestBlocks(), .retry_deadline = std::chrono::milliseconds(1)});
  const Feeder feeder(pipeline, 3);
  const StatusOr<uint64_t> done = Train(pipeline);
  REQUIRE(done.ok());
  CHECK(*done == 3);
}

TEST_CASE("An input error reaches the trainer") {
  RandomPort port({});
  BatchPipeline pipeline(port, {.blocks = &TestBlocks()});
  const Feeder feeder(pipeline, 0, absl::InvalidArgumentError("bad row"));
  CHECK(Train(pipeline).status() == absl::InvalidArgumentError("bad row"));
}

TEST_CASE("Stop ends a trainer and a loader that wait") {
  RandomPort port({});
  BatchPipeline pipeline(port, {.blocks = &TestBlocks(), .queue_batches = 1});
  std::thread loader([&] {
    while (pipeline.Feed(BatchOf(1))) {
    }
  });
  REQUIRE(pipeline.Next().ok());  // Never finished: nothing more can be pulled.
  pipeline.Stop();
  loader.join();
  CHECK(absl::IsCancelled(pipeline.Next().status()));
  CHECK_FALSE(pipeline.Feed(BatchOf(1)));
}

TEST_CASE("Evaluation pulls everything and pushes nothing") {
  RandomPort port({.staleness = 1000});
  {
    BatchPipeline pipeline(
        port, {.mode = LookupMode::kEvaluate, .staleness = 3, .blocks = &TestBlocks()});
    const Feeder feeder(pipeline, 50);
    uint64_t steps = 0;
    while (true) {
      const StatusOr<const PulledBatch*> pulled = pipeline.Next();
      REQUIRE(pulled.ok());
      if (*pulled == nullptr) break;
      CHECK((*pulled)->block->embeddings(0, 0) == static_cast<float>(steps));
      pipeline.Finish();
      ++steps;
    }
    CHECK(steps == 50);
  }
  CHECK(port.acknowledged().empty());
}

// Takes a batch from the pipeline while it allocates.
class AskingBlocks : public BlockPool {
 public:
  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    if (pipeline != nullptr) pipeline->TakeNext();
    ++leases;
    return TestBlocks().Lease(rows, with_gradients);
  }

  BatchPipeline* pipeline = nullptr;
  size_t leases = 0;
};

TEST_CASE("Memory for a batch is allocated without the pipeline's lock") {
  AskingBlocks blocks;
  RandomPort port({});
  PipelineOptions options = OptionsFor({});
  options.blocks = &blocks;
  BatchPipeline pipeline(port, options);
  blocks.pipeline = &pipeline;
  REQUIRE(pipeline.Feed(BatchOf(2)));
  pipeline.EndInput(absl::OkStatus());
  CHECK(Train(pipeline).value() == 1);
  CHECK(blocks.leases == 1);
}

// Answers every call at once, and sends batches encoded.
class EncodingPort final : public testing::ReadyPort {
 public:
  StatusOr<std::shared_ptr<const EncodedBatch>> Encode(const CompactBatch& batch) override {
    threads.push_back(std::this_thread::get_id());
    if (batch.batch_size > kMaxSamples) return absl::InvalidArgumentError("too large");
    encoded.push_back(std::make_shared<const EncodedBatch>());
    return encoded.back();
  }
  void Submit(SubmittedIds ids, const SubmitOptions& options,
              std::function<void(StatusOr<BatchReference>)> done) override {
    CHECK(ids.encoded == encoded.at(options.step));
    ReadyPort::Submit(std::move(ids), options, std::move(done));
  }

  static constexpr size_t kMaxSamples = 4;
  std::vector<std::thread::id> threads;
  std::vector<std::shared_ptr<const EncodedBatch>> encoded;
};

TEST_CASE("a batch is encoded on the thread that feeds it; an error ends the pipeline") {
  EncodingPort port;
  BatchPipeline pipeline(port, {.staleness = 2, .blocks = &TestBlocks()});
  std::thread::id feeder;
  std::vector<bool> works;
  std::thread loader([&] {
    feeder = std::this_thread::get_id();
    for (const size_t samples : {size_t{4}, size_t{4}, EncodingPort::kMaxSamples + 1}) {
      works.push_back(pipeline.Feed(BatchOf(samples)));
    }
  });
  loader.join();
  CHECK(port.threads == std::vector<std::thread::id>(3, feeder));
  CHECK(port.encoded.size() == 2);
  CHECK(works == std::vector<bool>{true, true, false});
  CHECK(pipeline.Next().status().message() == "submit: too large");
}

}  // namespace
}  // namespace simurgh
