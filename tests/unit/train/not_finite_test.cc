// Runs whose loss, weights or embeddings are not finite.

#include <atomic>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/train/equal_ranks.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 12;

// Embeddings are NaN in training steps [first, end) and, if evaluations are, in evaluations.
class NanPort final : public ReadyPort {
 public:
  NanPort(uint64_t first, uint64_t end, bool evaluations)
      : first_(first), end_(end), evaluations_(evaluations) {}

  void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    const std::span<float> values = embeddings.floats();
    const bool is_nan = options.mode == LookupMode::kEvaluate
                            ? evaluations_
                            : first_ <= options.step_id.step && options.step_id.step < end_;
    ReadyPort::Pull(batch, options, std::move(embeddings), [&](StatusOr<PullAnswer> answer) {
      if (is_nan) values.back() = std::numeric_limits<float>::quiet_NaN();
      done(std::move(answer));
    });
  }

 private:
  const uint64_t first_;
  const uint64_t end_;
  const bool evaluations_;
};

// Records skipped steps and the features that they name.
class SkippedSteps final : public TrainObserver {
 public:
  void OnStep(const Step& step) override {
    if (!step.applied) steps_.emplace_back(step.step, step.not_finite_features);
  }
  const std::vector<std::pair<uint64_t, std::string>>& steps() const { return steps_; }

 private:
  std::vector<std::pair<uint64_t, std::string>> steps_;
};

TrainerData Data(bool has_test) {
  TrainerData data{.train = [](uint32_t) { return std::make_unique<FewBatches>(kSteps); },
                   .embeddings = EmbeddingCheck({{"site", 3}}, {}),
                   .dense_width = 1};
  if (has_test) data.test = [] { return std::make_unique<FewBatches>(2); };
  return data;
}

TrainingConfig Config(float learning_rate) {
  TrainingConfig config;
  config.batch_size = FewBatches::kSamples;
  config.dense_optimizer.learning_rate = learning_rate;
  config.max_skipped_steps = 4;
  return config;
}

StatusOr<TrainResult> Train(EmbeddingPort& port, const TrainingConfig& config, bool has_test,
                            TrainObserver& observer) {
  const auto network = LinearNetwork({2, 1});
  const auto collective = NewLocalCollective();
  Trainer trainer(config, /*run=*/1, port, *network, *collective, Data(has_test), observer);
  return trainer.Run({});
}

TEST_CASE("Skipped steps name features whose embeddings are not finite, and are counted") {
  NanPort port(2, 5, false);
  SkippedSteps observer;
  const auto result = Train(port, Config(0.1F), true, observer);
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(result->steps == kSteps);
  CHECK(result->skipped_steps == 3);
  CHECK(observer.steps() ==
        std::vector<std::pair<uint64_t, std::string>>{{2, "site"}, {3, "site"}, {4, "site"}});
}

TEST_CASE("A run ends after max_skipped_steps in a row, naming the features") {
  NanPort port(2, kSteps, false);
  SkippedSteps observer;
  CHECK(Train(port, Config(0.1F), true, observer).status() ==
        absl::FailedPreconditionError(
            "training: the last 4 steps (training.max_skipped_steps), up to step 5, had a loss or "
            "gradient that is not finite, or beyond 2^48: embeddings are not finite of features: "
            "site; lower the learning_rate or weight_decay of their tables and restart the "
            "servers"));
  CHECK(observer.steps().size() == 4);
}

TEST_CASE("A run, or its last epoch, of skipped steps only is an error without a test set") {
  TrainingConfig config = Config(0.1F);
  config.max_skipped_steps = 100;
  config.epochs = GENERATE(1U, 3U);
  const uint64_t steps = kSteps * config.epochs;
  TrainObserver observer;
  NanPort all(steps - kSteps, steps, false);
  CHECK_THAT(std::string(Train(all, config, false, observer).status().message()),
             Catch::Contains("the last 12 steps (training.max_skipped_steps), up to step " +
                             std::to_string(steps - 1)) &&
                 Catch::Contains("of features: site"));
  NanPort all_but_one(steps - kSteps + 1, steps, false);
  CHECK(Train(all_but_one, config, false, observer).ok());
}

// Fails every call after an Abort.
class AbortedRanks final : public EqualRanks {
 public:
  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    if (aborted_) return absl::AbortedError("a rank called Abort");
    return EqualRanks::Gather(channel, own, all);
  }
  void Abort(const Status& /*reason*/) override { aborted_ = true; }

 private:
  std::atomic<bool> aborted_ = false;
};

TEST_CASE("Ranks that take every step together end with the same error") {
  NanPort port(2, kSteps, false);
  const auto network = LinearNetwork({2, 1});
  AbortedRanks ranks;
  TrainObserver observer;
  Trainer trainer(Config(0.1F), /*run=*/1, port, *network, ranks, Data(false), observer);
  CHECK_THAT(std::string(trainer.Run({}).status().message()),
             Catch::Contains("up to step 5") && Catch::Contains("of features: site"));
}

TEST_CASE("A run whose weights grow without limit ends and names the learning rate") {
  const float rate = GENERATE(1e15F, 1e30F);
  CAPTURE(rate);
  ReadyPort port;
  SkippedSteps observer;
  const auto result = Train(port, Config(rate), true, observer);
  CHECK(absl::IsFailedPrecondition(result.status()));
  CHECK_THAT(std::string(result.status().message()),
             Catch::Contains("lower training.dense_optimizer.learning_rate"));
  for (const auto& [step, features] : observer.steps()) CHECK(features.empty());
}

TEST_CASE("Weights that are not finite end a run without a test set") {
  ReadyPort port;
  TrainingConfig config = Config(0.1F);
  config.max_skipped_steps = 100;
  config.dense_optimizer.learning_rate = std::numeric_limits<float>::infinity();
  config.max_steps = 1;
  TrainObserver observer;
  CHECK_THAT(std::string(Train(port, config, false, observer).status().message()),
             Catch::Contains("weights are not finite"));
}

TEST_CASE("An evaluation whose predictions are not finite is an error that names the features") {
  NanPort port(0, 0, true);
  TrainObserver observer;
  CHECK(Train(port, Config(0.1F), true, observer).status() ==
        absl::FailedPreconditionError(
            "evaluation: 2 predictions are not finite; embeddings are not finite of features: "
            "site; lower the learning_rate or weight_decay of their tables and restart the "
            "servers"));
}

}  // namespace
}  // namespace simurgh::testing
