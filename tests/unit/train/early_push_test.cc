// The push of embeddings' gradients before the dense gradients are complete, and what rows get in a
// step with bad numbers.

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "tests/unit/train/equal_ranks.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/forwarding_network.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 6;
constexpr uint64_t kBadStep = 2;

// Keeps what was pushed, and tells of pulls.
class WatchedPort final : public ReadyPort {
 public:
  explicit WatchedPort(bool is_bad = false) : is_bad_(is_bad) {}

  void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    const std::span<float> values = embeddings.floats();
    const bool is_bad = is_bad_ && options.step_id.step == kBadStep;
    ReadyPort::Pull(batch, options, std::move(embeddings), [&](StatusOr<PullAnswer> answer) {
      if (is_bad) values.front() = std::numeric_limits<float>::quiet_NaN();
      {
        const MutexLock lock(mutex_);
        ++pulls_;
        changed_.NotifyAll();
      }
      done(std::move(answer));
    });
  }

  void Push(BatchReference /*batch*/, StepId step_id, GradientBuffer gradients,
            std::function<void(Status)> done) override {
    const std::span<const float> values = gradients.floats();
    {
      const MutexLock lock(mutex_);
      pushed_[step_id.step].assign(values.begin(), values.end());
    }
    done(absl::OkStatus());
  }

  // Waits until `count` batches have been pulled, at most a minute. Returns whether they have.
  bool AwaitPulls(uint64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    const MutexLock lock(mutex_);
    while (pulls_ < count && changed_.WaitUntil(mutex_, deadline)) {
    }
    return pulls_ >= count;
  }

  // Returns whether the step's push had gradients, no zeros.
  bool HasGradients(uint64_t step) {
    const MutexLock lock(mutex_);
    REQUIRE(pushed_.contains(step));
    REQUIRE(pushed_[step].size() == FewBatches::kSamples * 3);
    const bool has = std::ranges::none_of(pushed_[step], [](float g) { return g == 0.0F; });
    CHECK(has == !std::ranges::all_of(pushed_[step], [](float g) { return g == 0.0F; }));
    return has;
  }

 private:
  const bool is_bad_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t pulls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::vector<float>> pushed_ ABSL_GUARDED_BY(mutex_);
};

// The first of two ranks. The other one has bad numbers in a step.
class OtherRank final : public EqualRanks {
 public:
  explicit OtherRank(bool is_bad) : is_bad_(is_bad) {}

  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    SIMURGH_RETURN_IF_ERROR(EqualRanks::Gather(channel, own, all));
    // The word of a step begins with whether its numbers are finite.
    if (channel == Channel::kStep && words_++ == kBadStep && is_bad_) all[own.size()] = {};
    return absl::OkStatus();
  }

 private:
  const bool is_bad_;
  uint64_t words_ = 0;
};

// A network that finds its weights' gradients bad in a step, and lets others watch its steps.
class WatchedNetwork final : public ForwardingNetwork {
 public:
  WatchedNetwork(DenseNetwork& network, bool is_bad)
      : ForwardingNetwork(network), is_bad_(is_bad) {}

  // Called when the gradients of the weights of the last layer are complete.
  std::function<void(uint64_t step)> on_first_weights;

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override {
    weights_.emplace_back(parameters().begin(), parameters().end());
    const uint64_t number = weights_.size() - 1;
    RankStep watched = step;
    watched.on_gradients = [&, is_first = true](size_t first, size_t count) mutable {
      if (step.on_gradients) step.on_gradients(first, count);
      if (std::exchange(is_first, false) && on_first_weights) on_first_weights(number);
    };
    auto result =
        ForwardingNetwork::ForwardBackward(block, dense, labels, probabilities, watched, meanwhile);
    if (result.ok() && is_bad_ && number == kBadStep) result->finite = false;
    return result;
  }

  // Returns whether the step changed the weights.
  bool IsApplied(uint64_t step) const { return weights_.at(step) != weights_.at(step + 1); }

 private:
  const bool is_bad_;
  std::vector<std::vector<float>> weights_;  // Weights before each step.
};

TrainResult Train(EmbeddingPort& port, DenseNetwork& network, Collective& collective,
                  TrainingConfig::Mode mode) {
  TrainingConfig config{.mode = mode, .batch_size = FewBatches::kSamples, .staleness = 1};
  config.progress_interval = std::chrono::hours(1);
  TrainObserver observer;
  Trainer trainer(config, /*run=*/1, port, network, collective,
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
  return *result;
}

TEST_CASE("the next pull is answered while the weights' gradients are computed") {
  const auto mode = GENERATE(TrainingConfig::Mode::kHybrid, TrainingConfig::Mode::kSync);
  const auto network = LinearNetwork({2, 1});
  WatchedNetwork watched(*network, false);
  WatchedPort port;
  uint64_t answered = 0;
  watched.on_first_weights = [&](uint64_t step) {
    if (step + 1 < kSteps) answered += port.AwaitPulls(step + 2) ? 1 : 0;
  };
  const auto collective = NewLocalCollective();
  Train(port, watched, *collective, mode);
  CHECK(answered == kSteps - 1);
}

TEST_CASE("rows get the gradients of ranks whose own numbers are finite; dense steps are common") {
  struct Case {
    bool rows, weights, other_rank;  // What is bad in a step.
    TrainingConfig::Mode mode;
    bool has_gradients;  // Whether this rank's rows get gradients.
  };
  using Mode = TrainingConfig::Mode;
  // The rank knows its loss and its rows' gradients when it pushes. It does not know yet whether
  // its dense gradients and the other rank's numbers are finite: they decide over the dense step
  // alone. naive_hybrid pushes after the dense step, so there they decide over both.
  const Case one = GENERATE(
      Case{false, false, true, Mode::kHybrid, true}, Case{false, true, false, Mode::kHybrid, true},
      Case{true, false, false, Mode::kHybrid, false}, Case{true, false, true, Mode::kSync, false},
      Case{false, false, true, Mode::kSync, true},
      Case{false, true, false, Mode::kNaiveHybrid, false},
      Case{false, false, true, Mode::kNaiveHybrid, false});
  CAPTURE(one.rows, one.weights, one.other_rank, static_cast<int>(one.mode));
  const auto network = LinearNetwork({2, 1});
  WatchedNetwork watched(*network, one.weights);
  WatchedPort port(one.rows);
  OtherRank ranks(one.other_rank);
  const TrainResult result = Train(port, watched, ranks, one.mode);
  CHECK(result.skipped_steps == 1);
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    CHECK(port.HasGradients(step) == (step != kBadStep || one.has_gradients));
    if (step + 1 < kSteps) CHECK(watched.IsApplied(step) == (step != kBadStep));
  }
}

}  // namespace
}  // namespace simurgh::testing
