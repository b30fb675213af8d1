// Room of the device for batches of rows: made at the start, and anew where more comes than
// planned.

#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include "nn/cuda/memory_plan.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/log_lines.h"

namespace simurgh::testing {
namespace {

constexpr size_t kMostRows = 40;  // Of a batch of TrainInBlocks.

DenseNetworkOptions OptionsOf(size_t batch_row_bytes) {
  DenseNetworkOptions options =
      RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
  options.wire.rows = EveryPooling();
  options.wire.row_slots = 30;
  options.batch_rows = kMostRows;
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
  const RowCode rows(options.wire.embeddings, options.wire.rows);
  RoomRun run;
  run.results = TrainInBlocks(**network, /*overlapped=*/true, &rows, options.wire.row_slots);
  run.allocations = allocations - at_start;
  run.log = log.text();
  return run;
}

TEST_CASE("room that batches of rows need is made at the start, or the log says how large it is") {
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

TEST_CASE("a batch with one id of each feature fits into what is planned without being told") {
  const DenseNetworkOptions options = OptionsOf(0);
  const auto plan = PlanModel(EveryLayer(), options.inputs);
  REQUIRE(plan.ok());
  const cuda::WireCodes codes(*plan, options.wire);
  // A sample of EveryPooling: no two ids the same, two of them in the raw features' places.
  const std::vector<size_t> ids = {1, 2, 2, 1, 1, 4};
  CompactBatch batch;
  batch.batch_size = kMostRows;
  batch.offsets = {0};
  for (const size_t of_sample : ids) {
    for (size_t s = 0; s < kMostRows; ++s) {
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
  KeptRows kept;
  kept.here.resize((batch.ids.size() + 63) / 64);
  kept.moves = batch.ids.size();
  CHECK(cuda::PlanTransfer(*plan, codes, kMostRows, &batch, &kept).input_bytes ==
        cuda::RowInputBytes(*plan, codes, kMostRows));
}

}  // namespace
}  // namespace simurgh::testing
