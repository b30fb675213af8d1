// All stages of hybrid training run at once: each waits in its middle until all have arrived.

#include <algorithm>
#include <functional>
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
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 8;
constexpr size_t kBuckets = 2;  // One for each linear layer.
constexpr uint32_t kStaleness = 4;

// The step at which each stage waits for the others.
constexpr uint64_t kPushed = 0;
constexpr uint64_t kComputed = 1;  // And summed.
constexpr uint64_t kPulled = 2;
constexpr uint64_t kSubmitted = 3;
constexpr uint64_t kRead = 4;
constexpr size_t kStages = 6;

// Where all stages meet.
//
// Threads: any.
class Meeting {
 public:
  // Calls `go_on` once all have arrived.
  void Arrive(std::function<void()> go_on) {
    std::vector<std::function<void()>> all;
    {
      const MutexLock lock(mutex_);
      arrived_.push_back(std::move(go_on));
      if (arrived_.size() == kStages) all.swap(arrived_);
    }
    for (const auto& one : all) one();
  }

  void ArriveAndWait() {
    bool over = false;  // Guarded by mutex_.
    Arrive([&] {
      const MutexLock lock(mutex_);
      over = true;
      changed_.NotifyAll();
    });
    const MutexLock lock(mutex_);
    while (!over) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::function<void()>> arrived_ ABSL_GUARDED_BY(mutex_);
};

class MeetingReader final : public BatchReader {
 public:
  explicit MeetingReader(Meeting& meeting) : meeting_(meeting) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (given_++ == kRead) meeting_.ArriveAndWait();
    return batches_.Next();
  }
  uint64_t skipped_rows() const override { return 0; }

 private:
  Meeting& meeting_;
  FewBatches batches_{kSteps};
  uint64_t given_ = 0;
};

class MeetingPort final : public EmbeddingPort {
 public:
  explicit MeetingPort(Meeting& meeting) : meeting_(meeting) {}

  void Submit(SubmittedIds /*ids*/, const SubmitOptions& /*options*/,
              std::function<void(StatusOr<BatchReference>)> done) override {
    // Submitted in the order of the steps, each when the one before it has been.
    AnswerAt(submitted_++ == kSubmitted, [done = std::move(done)] { done(BatchReference()); });
  }

  void Pull(BatchReference /*batch*/, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    std::ranges::fill(embeddings.floats(), 0.5F);
    AnswerAt(options.step_id.step == kPulled, [done = std::move(done)] { done(PullAnswer()); });
  }

  void Push(BatchReference /*batch*/, StepId step_id, GradientBuffer /*gradients*/,
            std::function<void(Status)> done) override {
    AnswerAt(step_id.step == kPushed, [done = std::move(done)] { done(absl::OkStatus()); });
  }

 private:
  void AnswerAt(bool meeting, std::function<void()> answer) {
    if (meeting) {
      meeting_.Arrive(std::move(answer));
    } else {
      answer();
    }
  }

  Meeting& meeting_;
  uint64_t submitted_ = 0;
};

class MeetingRanks final : public EqualRanks {
 public:
  using EqualRanks::Sum;

  explicit MeetingRanks(Meeting& meeting) : meeting_(meeting) {}

  Status Sum(Channel channel, std::span<float> values, ReducePrecision precision,
             std::span<float> residual, absl::FunctionRef<void()> meanwhile) override {
    if (sums_++ == kComputed * kBuckets) meeting_.ArriveAndWait();
    return EqualRanks::Sum(channel, values, precision, residual, meanwhile);
  }

 private:
  Meeting& meeting_;
  uint64_t sums_ = 0;
};

// A network that stops in a backward pass, when the gradients of its last layer are there.
class MeetingNetwork final : public ForwardingNetwork {
 public:
  MeetingNetwork(DenseNetwork& network, Meeting& meeting)
      : ForwardingNetwork(network), meeting_(meeting) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override {
    bool meets = steps_++ == kComputed;
    RankStep stopping = step;
    stopping.on_gradients = [&](size_t first, size_t count) {
      step.on_gradients(first, count);
      if (std::exchange(meets, false)) meeting_.ArriveAndWait();
    };
    return ForwardingNetwork::ForwardBackward(block, dense, labels, probabilities, stopping,
                                              meanwhile);
  }

 private:
  Meeting& meeting_;
  uint64_t steps_ = 0;
};

void TrainOn(DenseNetwork& network, Meeting& meeting) {
  TrainingConfig config{.batch_size = FewBatches::kSamples, .staleness = kStaleness};
  config.allreduce.bucket_bytes = sizeof(float);
  config.progress_interval = std::chrono::hours(1);
  MeetingPort port(meeting);
  MeetingRanks ranks(meeting);
  TrainObserver observer;
  Trainer trainer(config, /*run=*/1, port, network, ranks,
                  {.train = [&](uint32_t) { return std::make_unique<MeetingReader>(meeting); },
                   .validation = {},
                   .test = {},
                   .embeddings = EmbeddingCheck({{"a", 3}}, {}),
                   .dense_width = 1},
                  observer);
  const auto result = trainer.Run({});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());
  CHECK(result->steps == kSteps);
}

TEST_CASE("hybrid: reading, submission, pull, compute, sum and push go on at the same time") {
  const auto network = LinearNetwork({2, 1});
  Meeting meeting;
  MeetingNetwork meeting_network(*network, meeting);
  const auto timeline = Timeline::Record();
  TrainOn(meeting_network, meeting);

  std::istringstream json(timeline->Finish("trainer"));
  auto spans = ReadTrace(json);
  const std::vector<TraceSpan> at_once{
      spans["read"][kRead].at(0),    spans["submit"][kSubmitted].at(0),
      spans["pull"][kPulled].at(0),  spans["forward and backward"][kComputed].at(0),
      spans["sum"][kComputed].at(0), spans["push"][kPushed].at(0)};
  const TraceSpan last_begun = std::ranges::max(at_once, {}, &TraceSpan::begin);
  const TraceSpan first_ended = std::ranges::min(at_once, {}, &TraceSpan::end);
  CHECK(last_begun.begin < first_ended.end);
}

}  // namespace
}  // namespace simurgh::testing
