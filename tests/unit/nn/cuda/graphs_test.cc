#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"

// Captured and replayed steps with overlapping copies, compared with sequential steps.
namespace simurgh::testing {
namespace {

TEST_CASE("a replayed graph gives the bits of the captured work") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kTf32,
                                           ComputePrecision::kBf16, ComputePrecision::kF16}) {
    CAPTURE(static_cast<int>(precision));
    DenseNetworkOptions options =
        RunOptions({.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F});
    options.precision = precision;
    const auto train = [&](bool replays) {
      auto created = CreateTestNetwork(EveryLayer(), options, replays);
      REQUIRE(created.ok());
      return Train(**created, 15);
    };
    const TrainingRun eager = train(false);
    const TrainingRun replayed = train(true);
    CHECK(SameBits(replayed.parameters, eager.parameters));
    CHECK(SameBits(replayed.state, eager.state));
    CHECK(SameBits(replayed.embedding_gradient, eager.embedding_gradient));
    CHECK(SameBits(replayed.predictions, eager.predictions));
    CHECK(replayed.losses == eager.losses);
  }
}

TEST_CASE("batches that overlap give the bits of batches that do not, in graphs or without") {
  for (const ComputePrecision precision : {ComputePrecision::kF32, ComputePrecision::kBf16}) {
    const auto train = [&](Overlap overlap, bool replays) {
      return TrainInBlocks(*WiredNetwork(precision, {}, replays), overlap);
    };
    const BlockRun expected = train(Overlap::kNone, false);
    for (const Overlap overlap : {Overlap::kNone, Overlap::kCopies, Overlap::kPasses}) {
      for (const bool replays : {false, true}) {
        CAPTURE(static_cast<int>(precision), static_cast<int>(overlap), replays);
        CheckSameRuns(train(overlap, replays), expected);
      }
    }
  }
}

TEST_CASE(
    "batches of rows that overlap give the bits of batches that do not, in graphs or without") {
  const auto precision =
      GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8);
  CAPTURE(static_cast<int>(precision));
  const EmbeddingWire wire{
      .dims = {4, 3, 4, 4, 5, 2, 1, 1}, .embeddings = precision, .rows = EveryPooling()};
  const RowCodec rows(precision, wire.rows);
  const auto train = [&](Overlap overlap, bool replays) {
    const auto network = WiredNetwork(ComputePrecision::kF32, wire, replays);
    return TrainInBlocks(*network, overlap, &rows);
  };
  const BlockRun expected = train(Overlap::kNone, false);
  for (const Overlap overlap : {Overlap::kNone, Overlap::kCopies, Overlap::kPasses}) {
    for (const bool replays : {false, true}) {
      CAPTURE(static_cast<int>(overlap), replays);
      CheckSameRuns(train(overlap, replays), expected);
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
