// When a trainer sums dense gradients with another rank, and what rounding leaves of them.

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "nn/dense_network.h"
#include "telemetry/timeline.h"
#include "tests/support/trace_spans.h"
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
constexpr size_t kBuckets = 2;  // One for each linear layer.
constexpr char kBackward[] = "forward and backward";

// The rows of kBadStep are not numbers.
class Port final : public ReadyPort {
 public:
  void Pull(BatchReference /*batch*/, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    const bool bad = options.step_id.step == kBadStep;
    std::ranges::fill(embeddings.floats(), bad ? std::numeric_limits<float>::quiet_NaN() : 0.5F);
    done(PullAnswer());
  }
};

// Rounding takes 1 off every value.
class RoundingRanks final : public EqualRanks {
 public:
  using EqualRanks::Sum;

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override {
    const MutexLock lock(mutex_);
    if (!residual.empty()) owed_.emplace_back(residual.begin(), residual.end());
    std::ranges::fill(residual, 1.0F);
    ++sums_;
    changed_.NotifyAll();
    return EqualRanks::Sum(channel, values, precision, residual, meanwhile);
  }

  // Waits until `count` sums have begun, at most for `most`.
  void AwaitSums(size_t count, std::chrono::milliseconds most) {
    const auto deadline = std::chrono::steady_clock::now() + most;
    const MutexLock lock(mutex_);
    while (sums_ < count && changed_.WaitUntil(mutex_, deadline)) {
    }
  }
  // The residuals that came with each sum.
  std::vector<std::vector<float>> owed() {
    const MutexLock lock(mutex_);
    return owed_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t sums_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::vector<float>> owed_ ABSL_GUARDED_BY(mutex_);
};

// A network that stops in every backward pass, when the gradients of its last layer are there, for
// their sum to begin.
class PatientNetwork final : public ForwardingNetwork {
 public:
  PatientNetwork(DenseNetwork& network, RoundingRanks& ranks, std::chrono::milliseconds patience)
      : ForwardingNetwork(network), ranks_(ranks), patience_(patience) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override {
    const size_t sums = kBuckets * steps_++ + 1;
    RankStep stopping = step;
    stopping.on_gradients = [&, stops = true](size_t first, size_t count) mutable {
      step.on_gradients(first, count);
      if (std::exchange(stops, false)) ranks_.AwaitSums(sums, patience_);
    };
    return ForwardingNetwork::ForwardBackward(block, dense, labels, probabilities, stopping,
                                              meanwhile);
  }

 private:
  RoundingRanks& ranks_;
  const std::chrono::milliseconds patience_;
  size_t steps_ = 0;
};

void TrainOn(RoundingRanks& ranks, const TrainingConfig& config,
             std::chrono::milliseconds patience) {
  const auto network = LinearNetwork({2, 1});
  PatientNetwork patient(*network, ranks, patience);
  Port port;
  TrainObserver observer;
  Trainer trainer(config, /*run=*/1, port, patient, ranks,
                  {.train = [](uint32_t) { return std::make_unique<FewBatches>(kSteps); },
                   .validation = {},
                   .test = {},
                   .embeddings = EmbeddingCheck({{"a", 3}}, {}),
                   .dense_width = 1},
                  observer);
  const auto result = trainer.Run({});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(result->steps == kSteps);
  CHECK(result->skipped_steps == 1);
}

TrainingConfig ConfigOf(TrainingConfig::Mode mode) {
  TrainingConfig config{.mode = mode, .batch_size = FewBatches::kSamples};
  config.allreduce.bucket_bytes = sizeof(float);
  config.progress_interval = std::chrono::hours(1);
  return config;
}

TEST_CASE("Sums over the ranks go on during the backward pass, but after it in naive_hybrid") {
  const bool naive = GENERATE(false, true);
  CAPTURE(naive);
  using Mode = TrainingConfig::Mode;
  RoundingRanks ranks;
  const auto timeline = Timeline::Record();
  // A sum that must not begin yet is given the time to begin all the same.
  const std::chrono::milliseconds patience(naive ? 20 : 60'000);
  TrainOn(ranks, ConfigOf(naive ? Mode::kNaiveHybrid : Mode::kHybrid), patience);
  std::istringstream json(timeline->Finish("trainer"));
  auto spans = ReadTrace(json);
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    const TraceSpan& backward = spans[kBackward][step].at(0);
    REQUIRE(spans["sum"][step].size() == kBuckets);
    CHECK(std::ranges::any_of(spans["sum"][step], [&](const TraceSpan& sum) {
            return sum.Overlaps(backward);
          }) == !naive);
  }
}

TEST_CASE("A step that is left out leaves nothing of its gradients to the next ones") {
  TrainingConfig config = ConfigOf(TrainingConfig::Mode::kHybrid);
  config.allreduce.precision = AllReduceConfig::Precision::kInt8;
  RoundingRanks ranks;
  TrainOn(ranks, config, std::chrono::milliseconds(0));
  const std::vector<std::vector<float>> owed = ranks.owed();
  REQUIRE(owed.size() == kSteps * kBuckets);
  for (size_t sum = 0; sum < owed.size(); ++sum) {
    const size_t step = sum / kBuckets;
    CAPTURE(step);
    const float expected = step == 0 || step == kBadStep + 1 ? 0.0F : 1.0F;
    CHECK(owed[sum] == std::vector<float>(owed[sum].size(), expected));
  }
}

}  // namespace
}  // namespace simurgh::testing
