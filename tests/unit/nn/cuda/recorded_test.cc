#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/collective/rank_board.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/recording_runtime.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/log_lines.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/two_tower_run.h"

// The CUDA executor as it is, on a runtime that checks its calls; see recording_runtime.h.
namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;

DenseNetworkOptions AdamOptions() {
  return RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
}

std::unique_ptr<DenseNetwork> NewNetwork(const DenseNetworkOptions& options = AdamOptions(),
                                         const ModelConfig& model = EveryLayer()) {
  auto network = CreateTestNetwork(model, options);
  REQUIRE(network.ok());
  return std::move(*network);
}

// Begins a test; at its end there must be no problem, and nothing left.
struct Recording {
  Recording() { recording::Reset(); }
  ~Recording() {
    CHECK(recording::TakeProblems() == std::vector<std::string>());
    CHECK(recording::Leaks() == "");
    recording::Reset();
  }
};

// A step that is not applied.
Status Compute(DenseNetwork& network, size_t rows, const RankStep& step = {}) {
  Random random(rows);
  const TestBatch batch(rows, kDense, kEmbeddings, random);
  auto block = network.blocks().Lease(rows, true);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  std::vector<float> probabilities(rows);
  const auto result =
      network.ForwardBackward(*block, batch.dense(), batch.labels, probabilities, step);
  SIMURGH_RETURN_IF_ERROR(result.status());
  if (!result->finite) return absl::InternalError("not finite");
  return absl::OkStatus();
}

Status Step(DenseNetwork& network, size_t rows, const RankStep& step = {}) {
  SIMURGH_RETURN_IF_ERROR(Compute(network, rows, step));
  return network.ApplyGradients(0.01F);
}

std::vector<float> WeightsOf(DenseNetwork& network) {
  return {network.parameters().begin(), network.parameters().end()};
}

// Sums of ranks that are threads.
class RecordedSums final : public DeviceSums {
 public:
  RecordedSums(RankBoard& board, uint32_t rank) : board_(board), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return board_.ranks(); }
  Status Sum(std::span<float> values, void* stream) override { return SumOf(values, stream); }
  Status Sum(std::span<double> values, void* stream) override { return SumOf(values, stream); }
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void* stream) override {
    return Run(stream, {outgoing, ranks() * part_bytes}, {incoming, ranks() * part_bytes},
               [&] { return board_.Exchange(rank_, outgoing, incoming, part_bytes); });
  }
  Status Gather(std::span<const std::byte> own, std::byte* all, void* stream) override {
    return Run(stream, {own.data(), own.size()}, {all, ranks() * own.size()},
               [&] { return board_.Gather(rank_, own, all); });
  }
  void StepEnqueued() override {}
  void StepEnded() override {}
  Status Check() override { return absl::OkStatus(); }
  void GiveUp(const Status& reason) override {
    given_up_ = reason;
    board_.GiveUp();
  }

  Status given_up_ = absl::OkStatus();

 private:
  template <typename T>
  Status SumOf(std::span<T> values, void* stream) {
    const recording::Bytes bytes{values.data(), values.size_bytes()};
    return Run(stream, bytes, bytes, [&] { return board_.Sum(rank_, values); });
  }

  Status Run(void* stream, const recording::Bytes& read, const recording::Bytes& written,
             const std::function<bool()>& run) {
    bool done = false;
    recording::RunOutsideGraphs(static_cast<cudaStream_t>(stream), read, written,
                                [&] { done = run(); });
    return done ? absl::OkStatus() : absl::UnavailableError("the other rank is gone");
  }

  RankBoard& board_;
  const uint32_t rank_;
};

TEST_CASE("the first batch meets no work of its memory's allocation") {
  const Recording recording;
  const auto network = NewNetwork();
  CHECK(Step(*network, 40).ok());
  CHECK(Step(*network, 80).ok());
}

TEST_CASE("batches that overlap race with nothing, in graphs of every element") {
  for (const ComputePrecision precision :
       {ComputePrecision::kF32, ComputePrecision::kBf16, ComputePrecision::kF16}) {
    for (const Overlap overlap : {Overlap::kCopies, Overlap::kPasses}) {
      const Recording recording;
      DenseNetworkOptions options = AdamOptions();
      options.precision = precision;
      TrainInBlocks(*NewNetwork(options), overlap);
      CHECK(recording::TakeCounts().graphs > 0);
    }
  }
}

TEST_CASE("a capture that fails costs neither the step nor the run, and is logged once") {
  const Recording recording;
  for (const size_t after_nodes : {0, 1, 7}) {
    CAPTURE(after_nodes);
    const auto expected = NewNetwork();
    for (int i = 0; i < 5; ++i) REQUIRE(Step(*expected, 40).ok());
    const LogLines log;
    const auto network = NewNetwork();
    recording::FailCaptures(1, after_nodes);
    recording::TakeCounts();
    for (int i = 0; i < 5; ++i) {
      const Status done = Step(*network, 40);
      INFO(std::string(done.message()));
      CHECK(done.ok());
    }
    CHECK(recording::TakeCounts().captures == 1);
    CHECK(std::ranges::count(log.text(), '\n') == 1);
    CHECK(log.text().find("continues without graphs") != std::string::npos);
    CHECK(SameBits(network->parameters(), expected->parameters()));
    CHECK(SameBits(network->state(), expected->state()));
    recording::TakeCounts();
    CHECK(Step(*network, 40).ok());
    CHECK(recording::TakeCounts().graphs == 0);
  }
}

TEST_CASE("a capture that cannot begin or become a graph runs its work once") {
  using recording::CaptureCall;
  const bool sums = GENERATE(false, true);
  const auto call = GENERATE(CaptureCall::kBegin, CaptureCall::kInstantiate);
  const size_t after = GENERATE(0, 1, 2, 3);  // With sums, those of pieces of one pass.
  CAPTURE(sums, static_cast<int>(call), after);
  const Recording recording;
  DenseNetworkOptions options = AdamOptions();
  options.precision = ComputePrecision::kF16;  // Its loss scale counts passes.
  const auto train = [&](bool replays) {
    RankBoard board(1);
    RecordedSums one_rank(board, 0);
    const auto network = CreateTestNetwork(EveryLayer(), options, replays);
    REQUIRE(network.ok());
    if (sums) REQUIRE((*network)->JoinRanks({&one_rank, {.bucket_bytes = 2'000}, true}).ok());
    for (int i = 0; i < 5; ++i) {
      const Status done = Step(**network, 40);
      INFO(std::string(done.message()));
      REQUIRE(done.ok());
    }
    std::vector<float> values = WeightsOf(**network);
    values.insert(values.end(), (*network)->state().begin(), (*network)->state().end());
    (*network)->LeaveRanks();
    return values;
  };
  const std::vector<float> expected = train(false);
  const LogLines log;
  recording::FailCall(call, after);
  CHECK(SameBits(train(true), expected));
  CHECK(std::ranges::count(log.text(), '\n') == 1);
}

TEST_CASE("a step whose captured work is lost fails") {
  const Recording recording;
  const LogLines log;
  RankBoard board(1);
  RecordedSums sums(board, 0);
  const auto network = NewNetwork();
  REQUIRE(network->JoinRanks({&sums, {.bucket_bytes = 2'000}, true}).ok());
  Status done = absl::OkStatus();
  recording::FailCall(recording::CaptureCall::kInstantiate, 0);
  recording::FailCall(recording::CaptureCall::kBegin, 1);
  for (int i = 0; i < 5 && done.ok(); ++i) done = Step(*network, 40);
  CHECK(done.message().find("capture of a graph") != std::string::npos);
  CHECK(sums.given_up_ == done);
  CHECK(log.text().find("continues without graphs") != std::string::npos);
  network->LeaveRanks();
}

TEST_CASE("shapes that came once make room for shapes that come again") {
  const Recording recording;
  DenseNetworkOptions options = RunOptions({});
  options.batch_rows = 100;
  const auto network = NewNetwork(options, Chain({Linear(4), Linear(1)}));
  for (size_t rows = 1; rows <= 80; ++rows) REQUIRE(Step(*network, rows).ok());
  for (int i = 0; i < 4; ++i) REQUIRE(Step(*network, 81).ok());
  recording::TakeCounts();
  for (int i = 0; i < 2; ++i) REQUIRE(Step(*network, 81).ok());
  const recording::Counts counts = recording::TakeCounts();
  CHECK(counts.graphs == 4);
  CHECK(counts.kernels == 0);
}

TEST_CASE("a thread that has not used the device before may sum on the host") {
  const Recording recording;
  DenseNetworkOptions options = AdamOptions();
  options.cuda_device = 1;
  const auto network = NewNetwork(options);
  REQUIRE(Step(*network, 40).ok());  // Allocates the blocks, which selects the device, too.
  Status done = absl::InternalError("not run");
  std::thread([&] {
    const RankStep step{.on_gradients = [](size_t, size_t) {},
                        .sum = [](std::span<double>) { return absl::OkStatus(); }};
    done = Step(*network, 40, step);
    if (done.ok()) done = Step(*network, 40);
  }).join();
  INFO(std::string(done.message()));
  CHECK(done.ok());
}

TEST_CASE("weights and gradients of a step without the network's optimizer are copied once") {
  const Recording recording;
  const auto network = NewNetwork(RunOptions({}), Chain({Linear(70), Relu(), Linear(1)}));
  const size_t bytes = network->parameters().size_bytes();
  for (int i = 0; i < 5; ++i) {
    recording::TakeCounts();
    std::ranges::fill(network->parameters(), 0.1F + static_cast<float>(i));
    REQUIRE(Compute(*network, 40).ok());
    CHECK(network->gradients()[0] != 0.0F);
    const recording::Counts counts = recording::TakeCounts();
    CHECK(counts.pageable == 0);
    if (i == 0) continue;
    CAPTURE(i, counts.copied_in, counts.copied_out, bytes);
    CHECK(counts.copied_in < bytes + 40 * 4 * (kDense + kEmbeddings + 4));
    CHECK(counts.copied_out < bytes + 40 * 4 * (kEmbeddings + 8));
  }
  // A step with a rate of 0 leaves the weights unchanged.
  REQUIRE(network->ApplyGradients(0).ok());
  recording::TakeCounts();
  CHECK(network->parameters()[0] == 4.1F);
  CHECK(recording::TakeCounts().copied_out == 0);
}

struct RankRun {
  Status status = absl::OkStatus();
  std::vector<float> weights;
  recording::Counts counts;
};

// Trains two ranks, whose batches have the sizes of `rows`.
std::vector<RankRun> TrainRanks(const std::vector<size_t> (&rows)[2], bool overlap,
                                AllReduceConfig::Precision precision) {
  RankBoard board(2);
  std::vector<RankRun> runs(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      DenseNetworkOptions options = AdamOptions();
      options.cuda_device = rank;
      options.batch_rows = 64;
      auto network = CreateTestNetwork(
          Chain({Linear(40), BatchNorm(), Relu(), Linear(24), Dice(), Linear(1)}), options);
      RecordedSums sums(board, rank);
      RankRun& run = runs[rank];
      run.status = network.ok() ? (*network)->JoinRanks({&sums, {precision, 2'000}, overlap})
                                : network.status();
      const RankStep step{.global_samples = 64,
                          .sum = [](std::span<double>) { return absl::InternalError("host"); }};
      for (size_t i = 0; i < rows[rank].size() && run.status.ok(); ++i) {
        run.status = Step(**network, rows[rank][i], step);
      }
      if (!run.status.ok()) return;
      run.weights = WeightsOf(**network);
      (*network)->LeaveRanks();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

TEST_CASE("ranks that capture and replay at different steps sum outside graphs") {
  const Recording recording;
  using Precision = AllReduceConfig::Precision;
  for (const auto& [overlap, precision] : {std::pair(true, Precision::kF32),
                                           {false, Precision::kF32},
                                           {true, Precision::kBf16},
                                           {true, Precision::kInt8}}) {
    CAPTURE(overlap, static_cast<int>(precision));
    // Rank 0 repeats one shape, rank 1 has other sizes, and no samples once.
    const auto runs = TrainRanks({{20, 20, 20, 20, 20, 20, 20, 20}, {30, 12, 30, 12, 0, 30, 7, 30}},
                                 overlap, precision);
    for (const RankRun& run : runs) {
      INFO(std::string(run.status.message()));
      REQUIRE(run.status.ok());
    }
    CHECK(SameBits(runs[0].weights, runs[1].weights));
    CHECK(recording::TakeCounts().graphs > 0);
  }
}

TEST_CASE("a gradient that is not finite on one rank leaves the step out on all") {
  const Recording recording;
  RankBoard board(2);
  bool finite[2] = {true, true};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      DenseNetworkOptions options = RunOptions({});
      options.cuda_device = rank;
      const auto network = CreateTestNetwork(Chain({Linear(1), Linear(1)}), options);
      RecordedSums sums(board, rank);
      if (!network.ok() || !(*network)->JoinRanks({&sums, {}, true}).ok()) return;
      // Only this rank's gradients of embeddings overflow, which are not summed.
      std::vector<float> weights((*network)->parameters().size(), 0.0F);
      if (rank == 1) weights[kDense] = weights[kDense + kEmbeddings + 1] = 1e30F;
      std::ranges::copy(weights, (*network)->parameters().begin());
      finite[rank] = Compute(**network, 20).message() != "not finite";
      (*network)->LeaveRanks();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(finite[0]);
  CHECK_FALSE(finite[1]);
}

TEST_CASE("an error of a device gives the sums of its ranks up") {
  const Recording recording;
  RankBoard board(1);
  RecordedSums sums(board, 0);
  const auto network = NewNetwork();
  REQUIRE(network->JoinRanks({&sums, {}, true}).ok());
  REQUIRE(Step(*network, 40).ok());
  CHECK(sums.given_up_.ok());
  recording::FailDevices(cudaErrorIllegalAddress);
  const Status failed = Step(*network, 40);
  CHECK(failed.message().find("illegal memory access") != std::string::npos);
  CHECK(sums.given_up_ == failed);
  recording::FailDevices(cudaSuccess);
  network->LeaveRanks();
}

TEST_CASE("weights that change while they are sent wait for the last ones") {
  const Recording recording;
  const auto network = NewNetwork(RunOptions({}), Chain({Linear(70), Relu(), Linear(1)}));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(Compute(*network, 40).ok());
    std::ranges::fill(network->parameters(), 0.5F);
    REQUIRE(network->ApplyGradients(0).ok());  // Sends them.
    std::ranges::fill(network->parameters(), 0.25F);
  }
}

TEST_CASE("a step that the device applies is enqueued before the host waits") {
  const Recording recording;
  const auto network = NewNetwork();
  for (int i = 0; i < 6; ++i) {
    REQUIRE(network->ApplyNext(0.01F));
    Random random(3);
    const TestBatch batch(40, kDense, kEmbeddings, random);
    const auto block = network->blocks().Lease(40, true);
    std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
    std::vector<float> probabilities(40);
    recording::TakeCounts();
    recording::Counts counts;
    REQUIRE(network
                ->ForwardBackward(*block, batch.dense(), batch.labels, probabilities, {},
                                  [&] { counts = recording::TakeCounts(); })
                .ok());
    if (i < 4) continue;
    CHECK(counts.host_waits == 0);
    CHECK(counts.graphs == 2);  // The pass and the optimizer.
    CHECK(counts.kernels == 0);
    CHECK(recording::TakeCounts().host_waits == 1);
  }
}

TEST_CASE("the next pass is enqueued before the host waits for the report of this one") {
  const Recording recording;
  const auto network = NewNetwork();
  Random random(3);
  const TestBatch batch(40, kDense, kEmbeddings, random);
  const auto new_block = [&] {
    auto block = network->blocks().Lease(40, true);
    std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
    return block;
  };
  auto block = new_block();
  for (int i = 0; i < 8; ++i) {
    REQUIRE(network->ApplyNext(0.01F));
    std::vector<float> probabilities(40);
    auto next = new_block();
    recording::TakeCounts();
    recording::Counts counts;
    REQUIRE(network
                ->ForwardBackward(*block, batch.dense(), batch.labels, probabilities, {},
                                  [&] {
                                    if (i == 7) return;  // The last batch.
                                    network->Load(*next, batch.dense(), batch.labels);
                                    CHECK(
                                        network->StartNext(*next, batch.dense(), batch.labels, {}));
                                    counts = recording::TakeCounts();
                                  })
                .ok());
    block = std::move(next);
    if (i < 4 || i == 7) continue;
    CHECK(counts.host_waits == 0);
    CHECK(counts.graphs == 2);  // The optimizer of this step and the pass of the next.
    CHECK(recording::TakeCounts().host_waits == 1);
  }
}

// The counts of one step, in the order of StepBatches: during a pass the next batch is loaded and
// the last one's gradients are awaited; then the next pass starts.
recording::Counts CountStep(DenseNetwork& network, const TestBatch& batch,
                            const RankStep& step = {}) {
  constexpr int kSteps = 6;
  const size_t rows = batch.rows;
  std::vector<float> probabilities(batch.labels.size());
  std::shared_ptr<BatchBlock> last;
  std::shared_ptr<BatchBlock> block = network.blocks().Lease(rows, true);
  for (int i = 0; i < kSteps; ++i) {
    const std::shared_ptr<BatchBlock> next = network.blocks().Lease(rows, true);
    recording::TakeCounts();
    REQUIRE(network.ApplyNext(0.01F));
    const auto meanwhile = [&] {
      network.Load(*next, batch.dense(), batch.labels);
      if (last != nullptr) REQUIRE(network.AwaitGradients(*last).ok());
      REQUIRE(network.StartNext(*next, batch.dense(), batch.labels, step));
    };
    REQUIRE(
        network.ForwardBackward(*block, batch.dense(), batch.labels, probabilities, step, meanwhile)
            .ok());
    last = std::exchange(block, next);
  }
  return recording::TakeCounts();
}

recording::Counts CountStep(DenseNetwork& network, size_t rows) {
  Random random(3);
  return CountStep(network, TestBatch(rows, kDense, kEmbeddings, random));
}

struct Budget {
  const char* name;
  const std::vector<LayerConfig>& layers;
  ComputePrecision precision;
  size_t rows;
  size_t nodes;
};

// Launches depend on the layers and the number of rows, not on widths: an eighth of them here.
TEST_CASE("a step's launches, waits and copies stay within their budgets") {
  const std::vector<LayerConfig> light = {Linear(32), Relu(), Linear(16), Relu(),
                                          Linear(8),  Relu(), Linear(1)};
  const std::vector<LayerConfig> paper = {Linear(512), Relu(), Linear(256), Relu(),
                                          Linear(128), Relu(), Linear(64),  Relu(),
                                          Linear(32),  Relu(), Linear(1)};
  // The step of the mask, then two for each dropout: the relu's gradient is in its own.
  const std::vector<LayerConfig> dropping = {Linear(32), Relu(), Dropout(0.2F),
                                             Linear(16), Relu(), Dropout(0.2F),
                                             Linear(8),  Relu(), Linear(1)};
  constexpr auto kBf16 = ComputePrecision::kBf16;
  constexpr auto kF16 = ComputePrecision::kF16;
  for (const Budget& budget : {Budget{"paper", paper, kBf16, 4'096, 30},
                               {"light", light, kBf16, 4'096, 20},
                               {"dropping", dropping, kBf16, 4'096, 25},
                               {"paper", paper, kBf16, 65'536, 27},
                               {"light", light, kBf16, 65'536, 21},
                               {"paper", paper, kF16, 65'536, 34},
                               {"light", light, kF16, 65'536, 26}}) {
    CAPTURE(budget.name, budget.rows, static_cast<int>(budget.precision));
    const Recording recording;
    recording::SkipKernels(true);
    DenseNetworkOptions options = AdamOptions();
    options.precision = budget.precision;
    options.batch_rows = budget.rows;
    const auto network = NewNetwork(options, Chain(budget.layers));
    const recording::Counts counts = CountStep(*network, budget.rows);
    CHECK(counts.graphs == 2);
    CHECK(counts.nodes <= budget.nodes);
    CHECK(counts.kernels == 0);
    CHECK(counts.host_waits == 2);  // For the report, and for the last gradients.
    CHECK(counts.pageable == 0);
  }
}

TEST_CASE("two towers race with nothing, and train as on the CPU") {
  for (const TwoTowerCase& run :
       {TwoTowerCase{.correction = LossConfig::Correction::kNone, .left_out = 1'000},
        {.has_weights = true, .uniform = 6, .left_out = 1'000}}) {
    const Recording recording;
    const auto on_cpu = CreateCpuNetwork(run.model(), run.options());
    REQUIRE(on_cpu.ok());
    const TwoTowerRun expected = TrainTwoTowers(**on_cpu, run, 14);
    const auto network = NewNetwork(run.options(), run.model());
    CheckSameRun(TrainTwoTowersAhead(*network, run, 14), expected, 1e-4);
    CHECK(recording::TakeCounts().graphs > 0);
  }
}

// A block of scores takes three products and three kernels: 4,096 samples have one block, 8,192
// have four.
TEST_CASE("the launches of two towers stay within their budgets") {
  using Correction = LossConfig::Correction;
  struct TowerBudget {
    TwoTowerCase run;
    size_t rows;
    size_t nodes;
  };
  for (const TowerBudget& budget : {TowerBudget{{.correction = Correction::kNone}, 4'096, 41},
                                    {{.correction = Correction::kLogQ}, 4'096, 44},
                                    {{.uniform = 1'024}, 4'096, 44},
                                    {{.correction = Correction::kNone}, 8'192, 60}}) {
    CAPTURE(static_cast<int>(budget.run.correction), budget.run.uniform, budget.rows);
    const Recording recording;
    recording::SkipKernels(true);
    DenseNetworkOptions options = budget.run.options();
    options.precision = ComputePrecision::kBf16;
    options.batch_rows = budget.rows;
    const auto network = NewNetwork(options, budget.run.model());
    Random random(3);
    const TwoTowerBatch batch(budget.run, 0, budget.rows, random);
    const recording::Counts counts = CountStep(*network, batch, batch.Step(0));
    CHECK(counts.graphs == 2);
    CHECK(counts.nodes == budget.nodes);
    CHECK(counts.kernels == 0);
    CHECK(counts.host_waits == 2);
    CHECK(counts.pageable == 0);
  }
}

// Nodes that a layer adds to a step between two linear ones.
TEST_CASE("the launches of activations, norms and fusions stay within their budgets") {
  using Kind = LayerConfig::Kind;
  const auto nodes_with = [](const std::vector<LayerConfig>& layers) {
    const Recording recording;
    recording::SkipKernels(true);
    DenseNetworkOptions options = AdamOptions();
    options.precision = ComputePrecision::kBf16;
    options.batch_rows = 4'096;
    const auto network = NewNetwork(options, Chain(layers));
    const recording::Counts counts = CountStep(*network, 4'096);
    CHECK(counts.graphs == 2);
    CHECK(counts.kernels == 0);
    return counts.nodes;
  };
  const size_t without = nodes_with({Linear(32), Linear(1)});
  for (const auto& [layer, nodes] : {std::pair<LayerConfig, size_t>{Sigmoid(), 2},
                                     {Plain(Kind::kSilu), 2},
                                     {Plain(Kind::kTanh), 2},
                                     {Plain(Kind::kGate), 2},
                                     {Plain(Kind::kPrelu), 5},
                                     {BatchNorm(), 18},
                                     {Dice(), 21},
                                     {LayerNorm(), 12},
                                     {Plain(Kind::kProduct, 2), 2},
                                     {Plain(Kind::kJoint, 2), 2},
                                     {Plain(Kind::kSoftmax), 2},
                                     {Plain(Kind::kL2Norm), 2},
                                     {Plain(Kind::kMix, 4), 3},
                                     {Plain(Kind::kBilinear, 1), 7},
                                     {Plain(Kind::kBilinear, 8), 7}}) {
    CAPTURE(NameOf(layer.kind));
    CHECK(nodes_with({Linear(32), layer, Linear(1)}) - without == nodes);
  }
}

// Nodes that a tower over a sequence of 4,096 samples adds to a step: they do not depend on the
// sequence's length.
TEST_CASE("the launches of sequences stay within their budgets") {
  using Kind = LayerConfig::Kind;
  Random random(3);
  const TestBatch batch = SequenceBatch(4'096, random, [](size_t row) { return row % 5; });
  const auto nodes_with = [&](const std::vector<TowerConfig>& towers) {
    const Recording recording;
    recording::SkipKernels(true);
    DenseNetworkOptions options = AdamOptions();
    options.inputs = SequenceInputs();
    options.precision = ComputePrecision::kBf16;
    options.batch_rows = batch.rows;
    ModelConfig model{.towers = towers, .tasks = {{.weight = 1.0F}, {.weight = 0.5F}}};
    TowerConfig top{"top", {"dense", "embeddings"}, {Linear(2)}};
    for (const TowerConfig& tower : towers) top.inputs.push_back(tower.name);
    model.towers.push_back(top);
    const auto network = NewNetwork(options, model);
    const recording::Counts counts = CountStep(*network, batch);
    CHECK(counts.graphs == 2);
    CHECK(counts.kernels == 0);
    return counts.nodes;
  };
  const size_t without = nodes_with({});
  const std::vector<std::string> seen = {"embeddings.seen", "mask.seen"};
  const std::vector<std::string> query = {"embeddings.item", "embeddings.seen", "mask.seen"};
  const LayerConfig attention{.kind = Kind::kAttention, .hidden = {8, 4}};
  LayerConfig dice = attention;
  dice.activation = Kind::kDice;
  const LayerConfig block{.kind = Kind::kSelfAttention, .width = 3, .hidden = {8}};
  CHECK(nodes_with({{"a", seen, {Plain(Kind::kMean)}}}) - without == 9);
  CHECK(nodes_with({{"a", seen, {Plain(Kind::kLast)}}}) - without == 9);
  CHECK(nodes_with({{"a", query, {attention}}}) - without == 33);
  CHECK(nodes_with({{"a", query, {dice}}}) - without == 77);
  CHECK(nodes_with({{"a", seen, {block}}}) - without == 82);
}

}  // namespace
}  // namespace simurgh::testing
