#include <optional>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"

// Overlapping batches, in lanes that run in any order that events allow, compared with sequential
// batches.
namespace simurgh::testing {
namespace {

BlockRun TrainInLanes(ComputePrecision precision, std::optional<uint64_t> seed, bool overlapped,
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
  const BlockRun run = TrainInBlocks(**network, overlapped, wire.rows.empty() ? nullptr : &rows);
  CHECK((replayed > 0) == seed.has_value());
  return run;
}

TEST_CASE("batches that overlap give the bits of batches that do not, in any order of the lanes") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kBf16}) {
    const BlockRun expected = TrainInLanes(precision, std::nullopt, false);
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      CAPTURE(static_cast<int>(precision), seed);
      CheckSameRuns(TrainInLanes(precision, seed, true), expected);
    }
    CheckSameRuns(TrainInLanes(precision, 1, false), expected);
  }
}

TEST_CASE("batches of rows that overlap give the bits of batches that do not") {
  const EmbeddingWire wire{.rows = EveryPooling()};
  const BlockRun expected = TrainInLanes(ComputePrecision::kF32, std::nullopt, false, wire);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    CheckSameRuns(TrainInLanes(ComputePrecision::kF32, seed, true, wire), expected);
  }
}

}  // namespace
}  // namespace simurgh::testing
