// Device memory for batches of rows: allocated at the start, and again for larger batches.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/cuda/memory_plan.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh::testing {
namespace {

constexpr size_t kMaxRows = 40;  // Largest batch of TrainInBlocks.

DenseNetworkOptions OptionsOf(size_t batch_row_bytes) {
  DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  options.wire.rows = EveryPooling();
  options.batch_rows = kMaxRows;
  options.batch_row_bytes = batch_row_bytes;
  return options;
}

struct RoomRun {
  BlockRun results;
  size_t allocations = 0;  // After the start.
  std::string log;
};

RoomRun RunWith(size_t batch_row_bytes) {
  const DenseNetworkOptions options = OptionsOf(batch_row_bytes);
  size_t allocations = 0;
  const LogLines log;
  auto network = CreateHostNetwork(EveryLayer(), options, {.allocations = &allocations});
  REQUIRE(network.ok());
  const size_t at_start = allocations;
  const RowCodec rows(options.wire.embeddings, options.wire.rows);
  RoomRun run;
  run.results = TrainInBlocks(**network, Overlap::kCopies, &rows);
  run.allocations = allocations - at_start;
  run.log = log.text();
  return run;
}

TEST_CASE("memory for batches of rows is allocated at the start, or the log names its size") {
  const RoomRun grown = RunWith(2'000);
  CHECK(grown.allocations > 0);
  CHECK(static_cast<size_t>(std::ranges::count(grown.log, '\n')) == grown.allocations);
  const std::string key = "set nn_worker.batch_row_bytes: ";
  const size_t at = grown.log.rfind(key);
  REQUIRE(at != std::string::npos);
  const RoomRun planned = RunWith(std::stoull(grown.log.substr(at + key.size())));
  CHECK(planned.allocations == 0);
  CHECK(planned.log.empty());
  CheckSameRuns(planned.results, grown.results);
}

// One id of each feature of EveryPooling in each sample: no two ids the same, two of them in the
// raw features' lengths.
CompactBatch OneIdEach() {
  const std::vector<size_t> ids = {1, 2, 2, 1, 1, 4};
  CompactBatch batch;
  batch.batch_size = kMaxRows;
  batch.offsets = {0};
  for (const size_t of_sample : ids) {
    for (size_t s = 0; s < kMaxRows; ++s) {
      for (size_t i = 0; i < of_sample; ++i) {
        batch.occurrences.push_back(static_cast<uint32_t>(s * of_sample + i));
        batch.ids.push_back(batch.ids.size());
        batch.weights.push_back(1.0F);
      }
      batch.offsets.push_back(static_cast<uint32_t>(batch.occurrences.size()));
    }
    batch.unique_ends.push_back(static_cast<uint32_t>(batch.ids.size()));
  }
  REQUIRE(batch.Validate().ok());
  return batch;
}

struct StepRun {
  double loss = 0;
  std::vector<float> probabilities;
  std::vector<std::byte> gradients;

  bool operator==(const StepRun&) const = default;
};

StepRun RunStep(DenseNetwork& network, BatchBlock& block, const TestBatch& batch) {
  StepRun run{.probabilities = std::vector<float>(batch.rows)};
  const auto result =
      network.ForwardBackward(block, batch.dense(), batch.labels, run.probabilities);
  REQUIRE(result.ok());
  REQUIRE(network.AwaitGradients(block).ok());
  run.loss = result->loss;
  run.gradients.assign(block.encoded_gradients.bytes.begin(), block.encoded_gradients.bytes.end());
  return run;
}

TestBatch BatchOf(size_t rows) {
  Random random(rows);
  return {rows, 5, 24, random};
}

std::shared_ptr<BatchBlock> BlockOf(DenseNetwork& network, const TestBatch& batch) {
  auto block = network.blocks().Lease(batch.rows, /*with_gradients=*/true);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  return block;
}

TEST_CASE("a batch with one id of each feature fits the default plan") {
  const DenseNetworkOptions options = OptionsOf(0);
  const auto plan = PlanModel(EveryLayer(), options.inputs);
  REQUIRE(plan.ok());
  const cuda::WireCodes codes(*plan, options.wire);
  const CompactBatch batch = OneIdEach();
  CHECK(cuda::PlanTransfer(*plan, codes, kMaxRows, &batch).input_bytes ==
        cuda::RowInputBytes(*plan, codes, kMaxRows));
}

TEST_CASE("memory for batches with one id of each feature is allocated at the start by default") {
  size_t allocations = 0;
  auto network = CreateHostNetwork(EveryLayer(), OptionsOf(0), {.allocations = &allocations});
  REQUIRE(network.ok());
  const size_t at_start = allocations;
  auto block = (*network)->blocks().LeaseFor(std::make_shared<const CompactBatch>(OneIdEach()),
                                             /*with_gradients=*/true);
  std::ranges::fill(block->encoded_embeddings.bytes, std::byte{0});
  RunStep(**network, *block, BatchOf(kMaxRows));
  CHECK(allocations == at_start);
}

TEST_CASE("a loaded batch is loaded again after a larger one failed to allocate") {
  DenseNetworkOptions options = OptionsOf(0);
  options.wire = {};
  options.batch_rows = 8;
  const TestBatch small = BatchOf(3);
  const TestBatch large = BatchOf(kMaxRows);
  StepRun runs[2];
  for (const bool is_loaded : {false, true}) {
    bool is_full = false;
    auto network = CreateHostNetwork(EveryLayer(), options, {.is_full = &is_full});
    REQUIRE(network.ok());
    const auto block = BlockOf(**network, small);
    if (is_loaded) {
      (*network)->Load(*block, small.dense(), small.labels);
      std::vector<float> predictions(large.rows);
      const auto larger = BlockOf(**network, large);
      is_full = true;
      CHECK(absl::IsResourceExhausted((*network)->Predict(*larger, large.dense(), predictions)));
      is_full = false;
    }
    runs[is_loaded] = RunStep(**network, *block, small);
  }
  CHECK(runs[1] == runs[0]);
}

}  // namespace
}  // namespace simurgh::testing
