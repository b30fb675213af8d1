// A rank is lost while servers wait for its push and no rank waits for it.

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "nn/dense_network.h"
#include "tests/unit/train/equal_ranks.h"
#include "tests/unit/train/few_batches.h"
#include "tests/unit/train/linear_network.h"
#include "tests/unit/train/ready_port.h"
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

// Holds the first push back until it is stopped.
class HoldingPort final : public ReadyPort {
 public:
  void Push(BatchReference /*batch*/, StepId /*step_id*/, GradientBuffer /*gradients*/,
            std::function<void(Status)> done) override {
    const MutexLock lock(mutex_);
    held_ = std::move(done);
    changed_.NotifyAll();
  }
  void Stop() override {
    std::function<void(Status)> held;
    {
      const MutexLock lock(mutex_);
      held = std::exchange(held_, nullptr);
    }
    if (held) held(absl::CancelledError("stopped"));
  }

  void AwaitPush() {
    const MutexLock lock(mutex_);
    while (!held_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::function<void(Status)> held_ ABSL_GUARDED_BY(mutex_);
};

// The other rank is lost as soon as the port holds a push. Loading needs no more answers from it.
class LosingRanks final : public EqualRanks {
 public:
  explicit LosingRanks(HoldingPort& port) : port_(port) {}

  Status Gather(Channel channel, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    if (channel != Channel::kWatch) return EqualRanks::Gather(channel, own, all);
    port_.AwaitPush();
    return absl::UnavailableError("rank 1 is gone");
  }

 private:
  HoldingPort& port_;
};

TEST_CASE("A rank that is gone is named though only servers wait for it") {
  const auto network = LinearNetwork({1});
  HoldingPort port;
  LosingRanks ranks(port);
  TrainingConfig config{.mode = TrainingConfig::Mode::kSync, .batch_size = FewBatches::kSamples};
  config.loader_queue_batches = 1;
  config.progress_interval = std::chrono::hours(1);
  TrainObserver observer;
  Trainer trainer(config, /*run=*/1, port, *network, ranks,
                  {.train = [](uint32_t) { return std::make_unique<FewBatches>(100); },
                   .validation = {},
                   .test = {},
                   .embeddings = EmbeddingCheck({{"a", 3}}, {}),
                   .dense_width = 1},
                  observer);
  const auto result = trainer.Run({});
  CHECK(result.status() == absl::UnavailableError("rank 1 is gone"));
}

}  // namespace
}  // namespace simurgh::testing
