// A trainer on a network that works beside it, against the same network taken step by step.

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "telemetry/timeline.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/train/forwarding_network.h"
#include "train/trainer.h"

namespace simurgh::testing {
namespace {

constexpr uint64_t kSteps = 24;
constexpr uint32_t kStaleness = 3;
constexpr size_t kSamples = 6;
constexpr size_t kWidth = 3;
constexpr size_t kRows = 11;
constexpr uint64_t kBadStep = 13;

// A table behind a port that answers at once, except for the first pull. That pull waits until all
// steps are submitted, so that later batches are always ready.
class TablePort : public EmbeddingPort {
 public:
  // Vectors have the wire's precision, or are converted from and to f32.
  explicit TablePort(const EmbeddingWire& wire)
      : wire_(wire),
        embedding_code_(wire.embeddings, wire.dims),
        gradient_code_(wire.gradients, wire.dims),
        rows_(kRows * kWidth) {
    Random random(3);
    for (float& value : rows_) value = static_cast<float>(random.Uniform() - 0.5);
  }

  void Submit(SubmittedIds /*ids*/, const SubmitOptions& /*options*/,
              std::function<void(StatusOr<BatchReference>)> done) override {
    std::function<void()> first;
    {
      const MutexLock lock(mutex_);
      if (++submitted_ == kSteps) first = std::move(first_pull_);
    }
    done(BatchReference());
    if (first) first();
  }

  void Pull(BatchReference /*batch*/, const PullOptions& options, EmbeddingBuffer target,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    const uint64_t step = options.step_id.step;
    std::vector<float> values(kSamples * kWidth);
    const MatrixView<float> embeddings(values.data(), kSamples, kWidth);
    {
      const MutexLock lock(mutex_);
      for (size_t sample = 0; sample < embeddings.rows(); ++sample) {
        std::ranges::copy(RowOf(step, sample), embeddings.row(sample).begin());
      }
      const bool trains = options.mode == LookupMode::kTrain;
      if (trains && step == kBadStep) {
        embeddings(0, 0) = std::numeric_limits<float>::quiet_NaN();
      }
      Give(embeddings, target);
      if (trains && step == 0 && submitted_ < kSteps) {
        first_pull_ = [done = std::move(done)] { done(PullAnswer()); };
        return;
      }
    }
    done(PullAnswer());
  }

  void Push(BatchReference /*batch*/, StepId step_id, GradientBuffer source,
            std::function<void(Status)> done) override {
    const std::vector<float> values = Take(source, step_id);
    const MatrixView<const float> gradients(values.data(), kSamples, kWidth);
    {
      const MutexLock lock(mutex_);
      for (size_t sample = 0; sample < gradients.rows(); ++sample) {
        const std::span<float> row = RowOf(step_id.step, sample);
        for (size_t i = 0; i < kWidth; ++i) row[i] -= gradients(sample, i);
      }
    }
    done(absl::OkStatus());
  }

  std::vector<float> rows() {
    const MutexLock lock(mutex_);
    return rows_;
  }

 private:
  void Give(MatrixView<const float> embeddings, const EmbeddingBuffer& target) const {
    std::vector<std::byte> bytes(kSamples * embedding_code_.row_bytes());
    embedding_code_.Encode(embeddings, 1.0F, std::nullopt, bytes);
    if (target.precision == wire_.embeddings) {
      std::ranges::copy(bytes, target.bytes.begin());
    } else {
      embedding_code_.Decode(bytes, 1.0F, {target.floats().data(), kSamples, kWidth});
    }
  }
  std::vector<float> Take(const GradientBuffer& source, const StepId& step_id) const {
    std::vector<std::byte> bytes(kSamples * gradient_code_.row_bytes());
    if (source.precision == wire_.gradients) {
      std::ranges::copy(source.bytes, bytes.begin());
    } else {
      const RoundingKey key{
          .seed = wire_.seed, .step = step_id.step, .first_row = FirstRowOf(step_id.rank)};
      gradient_code_.Encode({source.floats().data(), kSamples, kWidth}, wire_.gradient_factor, key,
                            bytes);
    }
    std::vector<float> values(kSamples * kWidth);
    gradient_code_.Decode(bytes, 1.0F / wire_.gradient_factor, {values.data(), kSamples, kWidth});
    return values;
  }

  std::span<float> RowOf(uint64_t step, size_t sample) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::span(rows_).subspan((step * 5 + sample) % kRows * kWidth, kWidth);
  }

  const EmbeddingWire wire_;
  const VectorCodec embedding_code_;
  const VectorCodec gradient_code_;
  Mutex mutex_;
  std::vector<float> rows_ ABSL_GUARDED_BY(mutex_);
  uint64_t submitted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> first_pull_ ABSL_GUARDED_BY(mutex_);
};

class Batches : public BatchReader {
 public:
  explicit Batches(uint64_t count) : count_(count) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (given_ == count_) return std::nullopt;
    Random random(++given_);
    auto sparse = std::make_shared<CompactBatch>();
    sparse->batch_size = kSamples;
    Batch batch{.sparse = sparse, .dense = {.batch_size = kSamples, .width = 1}};
    for (size_t i = 0; i < kSamples; ++i) {
      batch.dense.values.push_back(static_cast<float>(random.Uniform()));
      batch.dense.labels.push_back(i % 2 == 0 ? 1.0F : 0.0F);
    }
    return batch;
  }
  uint64_t skipped_rows() const override { return 0; }

 private:
  const uint64_t count_;
  uint64_t given_ = 0;
};

// The network without overlaps, in f32 blocks of ordinary memory.
class StepByStep final : public ForwardingNetwork {
 public:
  explicit StepByStep(DenseNetwork& network) : ForwardingNetwork(network), network_(network) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& /*meanwhile*/) override {
    return ComputeGradients(network_, dense, block.embeddings, labels, block.gradients,
                            probabilities, step);
  }
  Status Predict(BatchBlock& block, MatrixView<const float> dense,
                 std::span<float> outputs) override {
    return OutputsFrom(network_, dense, block.embeddings, outputs);
  }
  BlockPool& blocks() override { return *blocks_; }

 private:
  DenseNetwork& network_;
  const std::unique_ptr<BlockPool> blocks_ = NewBlockPool(kWidth);
};

struct Outcome {
  std::vector<float> parameters;
  std::vector<float> rows;
  double log_loss = 0;
  uint64_t skipped = 0;
  size_t copies_in = 0;
};

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A network that overlaps has blocks of what travels; the other one's are f32.
Outcome Train(const EmbeddingWire& wire, std::optional<uint64_t> lanes, bool overlaps,
              TrainingConfig::Mode mode = TrainingConfig::Mode::kHybrid) {
  const ModelConfig model{
      .towers = {{.name = "top",
                  .inputs = {"dense", "embeddings"},
                  .layers = {{.kind = LayerConfig::Kind::kLinear, .width = 5},
                             {.kind = LayerConfig::Kind::kRelu},
                             {.kind = LayerConfig::Kind::kLinear, .width = 1}}}}};
  DenseNetworkOptions options;
  options.inputs = {.dense_width = 1, .embedding_width = kWidth, .features = {{"a", kWidth}}};
  if (overlaps) options.wire = wire;
  auto network = CreateHostNetwork(model, options, {.lanes = lanes});
  REQUIRE(network.ok());
  StepByStep step_by_step(**network);
  DenseNetwork& used = overlaps ? **network : step_by_step;
  TrainingConfig config{.mode = mode,
                        .batch_size = kSamples,
                        .staleness = kStaleness,
                        .reproducible = mode == TrainingConfig::Mode::kHybrid,
                        .evaluate_every_steps = 7};
  config.loader_queue_batches = kSteps;
  config.progress_interval = std::chrono::hours(1);
  TablePort port(wire);
  const auto timeline = Timeline::Record();
  const auto collective = NewLocalCollective();
  TrainObserver observer;
  Trainer trainer(config, /*run=*/1, port, used, *collective,
                  {.train = [](uint32_t) { return std::make_unique<Batches>(kSteps); },
                   .validation = {},
                   .test = [] { return std::make_unique<Batches>(2); },
                   .embeddings = EmbeddingCheck(options.inputs.features, options.wire),
                   .dense_width = 1},
                  observer);
  const auto result = trainer.Run({});
  CAPTURE(result.status().ToString());
  REQUIRE(result.ok());
  REQUIRE(result->steps == kSteps);
  const std::span<const float> parameters = (*network)->parameters();
  return {.parameters = {parameters.begin(), parameters.end()},
          .rows = port.rows(),
          .log_loss = result->evaluation->log_loss,
          .skipped = result->skipped_steps,
          .copies_in = Count(timeline->Finish("trainer"), "\"copy in\"")};
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("training that overlaps ends with the bits of training that does not") {
  using Precision = VectorPrecision;
  const auto [embeddings, gradients] =
      GENERATE(table<Precision, Precision>({{Precision::kF32, Precision::kF32},
                                            {Precision::kInt8, Precision::kInt8},
                                            {Precision::kBf16, Precision::kF16}}));
  CAPTURE(static_cast<int>(embeddings), static_cast<int>(gradients));
  const EmbeddingWire wire{.dims = {2, 1},
                           .embeddings = embeddings,
                           .gradients = gradients,
                           .gradient_factor = gradients == Precision::kF16 ? 1024.0F : 1.0F,
                           .seed = 5};
  const Outcome expected = Train(wire, std::nullopt, false);
  CHECK(expected.skipped == 1);
  CHECK(expected.copies_in == 0);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Outcome actual = Train(wire, seed, true);
    CHECK(actual.copies_in > 0);
    CHECK(actual.skipped == 1);
    CHECK(SameBits(actual.parameters, expected.parameters));
    CHECK(SameBits(actual.rows, expected.rows));
    CHECK(actual.log_loss == expected.log_loss);
  }
}

TEST_CASE("naive_hybrid does one thing after the other on such a network, too") {
  const Outcome naive = Train({.dims = {kWidth}}, 1, true, TrainingConfig::Mode::kNaiveHybrid);
  CHECK(naive.copies_in == 0);
  CHECK(naive.skipped == 1);
}

}  // namespace
}  // namespace simurgh::testing
