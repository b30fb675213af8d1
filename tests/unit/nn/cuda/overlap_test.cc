#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"

// Orders that a device may choose: of lanes, as far as events allow, compared with sequential
// batches; and of a kernel's calls.
namespace simurgh::testing {
namespace {

BlockRun TrainInLanes(ComputePrecision precision, std::optional<uint64_t> seed, Overlap overlap,
                      const EmbeddingWire& wire = {}) {
  DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  options.precision = precision;
  options.wire = wire;
  size_t replayed = 0;
  auto network = CreateHostNetwork(
      EveryLayer(), options, {.replays = seed.has_value(), .lanes = seed, .replayed = &replayed});
  REQUIRE(network.ok());
  const RowCodec rows(wire.embeddings, wire.rows);
  const BlockRun run = TrainInBlocks(**network, overlap, wire.rows.empty() ? nullptr : &rows);
  CHECK((replayed > 0) == seed.has_value());
  return run;
}

TEST_CASE("batches that overlap give the bits of batches that do not, in any order of the lanes") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kBf16}) {
    const BlockRun expected = TrainInLanes(precision, std::nullopt, Overlap::kNone);
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      CAPTURE(static_cast<int>(precision), seed);
      CheckSameRuns(TrainInLanes(precision, seed, Overlap::kCopies), expected);
      CheckSameRuns(TrainInLanes(precision, seed, Overlap::kPasses), expected);
    }
    CheckSameRuns(TrainInLanes(precision, 1, Overlap::kNone), expected);
  }
}

TEST_CASE("batches of rows that overlap give the bits of batches that do not") {
  const EmbeddingWire wire{.rows = EveryPooling()};
  const BlockRun expected =
      TrainInLanes(ComputePrecision::kF32, std::nullopt, Overlap::kNone, wire);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    for (const Overlap overlap : {Overlap::kCopies, Overlap::kPasses}) {
      CheckSameRuns(TrainInLanes(ComputePrecision::kF32, seed, overlap, wire), expected);
    }
  }
}

TrainingRun TrainOnHost(const DenseNetworkOptions& options, const HostExecutor::Options& executor,
                        int steps) {
  auto network = CreateHostNetwork(EveryLayer(), options, executor);
  REQUIRE(network.ok());
  return Train(**network, steps);
}

TEST_CASE("neither fused epilogues nor the order of a kernel's calls change a training run") {
  const DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  const TrainingRun plain = TrainOnHost(options, {.fuse = false}, 8);
  const TrainingRun reversed = TrainOnHost(options, {.fuse = false, .reverse = true}, 8);
  CHECK(SameBits(plain.parameters, reversed.parameters));
  CHECK(SameBits(plain.state, reversed.state));
  CHECK(SameBits(plain.embedding_gradient, reversed.embedding_gradient));
  CHECK(plain.losses == reversed.losses);
  // Sums biases' gradients in another order.
  const ExpectedRun expected = ExpectAsOnCpu(options, 8);
  CheckSameTraining(plain, expected);
  CheckSameTraining(TrainOnHost(options, {.fuse = true}, 8), expected);
}

// A batch in a block of the network.
struct BlockBatch {
  BlockBatch(DenseNetwork& network, uint64_t step, const DenseNetworkOptions& options)
      : random(step + 1),
        batch(20, options.inputs.dense_width, options.inputs.embedding_width, random),
        block(network.blocks().Lease(batch.rows, true)) {
    std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  }

  Random random;
  TestBatch batch;
  std::shared_ptr<BatchBlock> block;
};

// Who applies the gradients: the caller; the network; the network, which also starts the next pass.
enum class Applies { kCaller, kNetwork, kAhead };

// Weights and state after steps with different rates. One step's loss is not finite, and a
// prediction takes a slot.
std::vector<float> TrainAtRates(std::optional<uint64_t> seed, Applies applies) {
  DenseNetworkOptions options = RunOptions(
      {.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F, .average_decay = 0.9F});
  auto created =
      CreateHostNetwork(EveryLayer(), options, {.replays = seed.has_value(), .lanes = seed});
  REQUIRE(created.ok());
  DenseNetwork& network = **created;
  std::optional<BlockBatch> next;
  std::vector<float> all_probabilities;
  for (uint64_t step = 0; step < 14; ++step) {
    BlockBatch now = next ? *std::exchange(next, std::nullopt) : BlockBatch(network, step, options);
    TestBatch& batch = now.batch;
    if (step == 6) batch.dense_values[0] = std::numeric_limits<float>::infinity();
    const auto block = now.block;
    std::vector<float> probabilities(batch.rows);
    const float rate = 0.01F * static_cast<float>(step + 1);
    if (applies != Applies::kCaller) REQUIRE(network.ApplyNext(rate));
    const auto start_next = [&] {
      if (applies != Applies::kAhead || step == 8 || step == 5) return;
      next.emplace(network, step + 1, options);
      const TestBatch& ahead = next->batch;
      network.Load(*next->block, ahead.dense(), ahead.labels);
      CHECK(network.StartNext(*next->block, ahead.dense(), ahead.labels, {}));
    };
    const auto result =
        network.ForwardBackward(*block, batch.dense(), batch.labels, probabilities, {}, start_next);
    REQUIRE(result.ok());
    CHECK(result->finite == (step != 6));
    all_probabilities.insert(all_probabilities.end(), probabilities.begin(), probabilities.end());
    if (applies != Applies::kCaller) {
      CHECK(network.ApplyGradients(rate).code() == absl::StatusCode::kFailedPrecondition);
    } else if (result->finite) {
      REQUIRE(network.ApplyGradients(rate).ok());
    }
    if (step == 8) REQUIRE(network.Predict(*block, batch.dense(), probabilities).ok());
  }
  std::vector<float> values(network.parameters().begin(), network.parameters().end());
  values.insert(values.end(), network.state().begin(), network.state().end());
  values.insert(values.end(), all_probabilities.begin(), all_probabilities.end());
  return values;
}

TEST_CASE("steps that the device applies have the bits of steps that the host applies") {
  const std::vector<float> expected = TrainAtRates(std::nullopt, Applies::kCaller);
  CHECK(SameBits(TrainAtRates(std::nullopt, Applies::kNetwork), expected));
  CHECK(SameBits(TrainAtRates(std::nullopt, Applies::kAhead), expected));
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    CHECK(SameBits(TrainAtRates(seed, Applies::kCaller), expected));
    CHECK(SameBits(TrainAtRates(seed, Applies::kNetwork), expected));
    CHECK(SameBits(TrainAtRates(seed, Applies::kAhead), expected));
  }
}

// Twice the values, as if another rank had the same.
class DoubledSums final : public DeviceSums {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 2; }
  Status Sum(std::span<float> values, void* stream) override { return Double(values, stream); }
  Status Sum(std::span<double> values, void* stream) override { return Double(values, stream); }
  Status Exchange(const std::byte*, std::byte*, size_t, void*) override {
    return absl::UnimplementedError("");
  }
  Status Gather(std::span<const std::byte>, std::byte*, void*) override {
    return absl::UnimplementedError("");
  }
  void StepEnqueued() override {}
  void StepEnded() override {}
  Status Check() override { return absl::OkStatus(); }
  void GiveUp(const Status& /*reason*/) override {}

 private:
  template <typename T>
  static Status Double(std::span<T> values, void* stream) {
    static_cast<HostExecutor*>(stream)->Enqueue([values] {
      for (T& value : values) value *= 2;
    });
    return absl::OkStatus();
  }
};

std::vector<float> TrainWithSums(std::optional<uint64_t> seed, bool overlap, bool fails_captures,
                                 bool ahead = false) {
  const DenseNetworkOptions options = RunOptions({.momentum = 0.9F});
  DoubledSums sums;
  auto created = CreateHostNetwork(
      EveryLayer(), options,
      {.replays = seed.has_value(), .fails_captures = fails_captures, .lanes = seed});
  REQUIRE(created.ok());
  DenseNetwork& network = **created;
  REQUIRE(network.JoinRanks({&sums, {.bucket_bytes = 2'000}, overlap}).ok());
  const RankStep ranks{.global_samples = 40,
                       .sum = [](std::span<double>) { return absl::InternalError("host"); }};
  std::optional<BlockBatch> next;
  for (uint64_t step = 0; step < 8; ++step) {
    const BlockBatch now =
        next ? *std::exchange(next, std::nullopt) : BlockBatch(network, step, options);
    std::vector<float> probabilities(now.batch.rows);
    REQUIRE(network.ApplyNext(0.05F));
    const auto start_next = [&] {
      if (!ahead || step == 7) return;
      next.emplace(network, step + 1, options);
      const TestBatch& batch = next->batch;
      network.Load(*next->block, batch.dense(), batch.labels);
      CHECK(network.StartNext(*next->block, batch.dense(), batch.labels, ranks));
    };
    REQUIRE(network
                .ForwardBackward(*now.block, now.batch.dense(), now.batch.labels, probabilities,
                                 ranks, start_next)
                .ok());
  }
  const std::vector<float> weights(network.parameters().begin(), network.parameters().end());
  network.LeaveRanks();
  return weights;
}

TEST_CASE("sums in their own lane come after gradients and before steps, in any order of lanes") {
  const std::vector<float> expected = TrainWithSums(std::nullopt, false, false);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    CHECK(SameBits(TrainWithSums(seed, true, false), expected));
    CHECK(SameBits(TrainWithSums(seed, false, false), expected));
    CHECK(SameBits(TrainWithSums(seed, true, true), expected));
    CHECK(SameBits(TrainWithSums(seed, true, false, true), expected));
  }
}

}  // namespace
}  // namespace simurgh::testing
