// Batches of rows pooled by the network, compared with batches pooled before.

#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/unit/nn/cuda/overlapped_run.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {
namespace {

EmbeddingWire WireOf(VectorPrecision precision) {
  return {.dims = {4, 3, 4, 4, 5, 2, 1, 1}, .embeddings = precision, .rows = EveryPooling()};
}

void CheckPooledRows(ComputePrecision compute) {
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16,
                                  VectorPrecision::kF16, VectorPrecision::kInt8);
  CAPTURE(static_cast<int>(precision));
  const RowCodec rows(precision, EveryPooling());
  const auto pooling = WiredNetwork(compute, WireOf(precision));
  const auto plain = WiredNetwork(compute, {});
  CheckSameRuns(TrainInBlocks(*pooling, Overlap::kNone, &rows),
                TrainInBlocks(*plain, Overlap::kNone, &rows));
}

TEST_CASE("rows pooled by the network train as embeddings pooled before, to the bit") {
  CheckPooledRows(ComputePrecision::kF32);
}

TEST_CASE("rows pooled by a network in bf16 train as embeddings pooled before, to the bit") {
  if (!BackendHas(ComputePrecision::kBf16))
    SIMURGH_SKIP("oneDNN has no products of bf16 for this processor");
  CheckPooledRows(ComputePrecision::kBf16);
}

TEST_CASE("a rank without samples can pass a block of rows") {
  const auto network = WiredNetwork(ComputePrecision::kF32, WireOf(VectorPrecision::kF32));
  auto ids = std::make_shared<CompactBatch>();
  ids->offsets = {0};
  ids->unique_ends.resize(EveryPooling().size());
  const auto block = network->blocks().LeaseFor(ids, true);
  CHECK(block->encoded_embeddings.form == EmbeddingForm::kRows);
  CHECK(block->encoded_embeddings.bytes.empty());
  const auto result =
      network->ForwardBackward(*block, {nullptr, 0, 5}, {}, {}, RankStep{.global_samples = 10});
  REQUIRE(result.ok());
  CHECK(network->AwaitGradients(*block).ok());
}

TEST_CASE("a network that pools rows also accepts embeddings") {
  const auto pooling = WiredNetwork(ComputePrecision::kF32, WireOf(VectorPrecision::kF32));
  const auto plain = WiredNetwork(ComputePrecision::kF32, {});
  CheckSameRuns(TrainInBlocks(*pooling, Overlap::kNone), TrainInBlocks(*plain, Overlap::kNone));
}

}  // namespace
}  // namespace simurgh::testing
