#include "tests/unit/nn/cuda/overlapped_run.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/training_run.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;
constexpr uint64_t kBatches = 14;

// The first ones grow, so that memory moves while batches are under way.
TestBatch BatchOf(uint64_t step) {
  constexpr size_t kRows[] = {3, 17, 40, 40, 8, 40, 1};
  Random random(step + 1);
  return {kRows[step % std::size(kRows)], kDense, kEmbeddings, random};
}

std::shared_ptr<BatchBlock> BlockOf(DenseNetwork& network, const TestBatch& batch,
                                    bool with_gradients) {
  auto block = network.blocks().Lease(batch.rows, with_gradients);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  return block;
}

std::vector<float> PredictOn(DenseNetwork& network) {
  const TestBatch batch = BatchOf(100);
  const auto block = BlockOf(network, batch, false);
  std::vector<float> predictions(batch.rows);
  CHECK(network.PredictOn(*block, batch.dense(), predictions).ok());
  return predictions;
}

// Takes what has come, and leaves nothing there for anybody who would look too late.
std::vector<float> TakeGradients(DenseNetwork& network, std::shared_ptr<BatchBlock> block) {
  REQUIRE(network.AwaitGradients(*block).ok());
  std::vector<float> gradients(block->gradients.flat().begin(), block->gradients.flat().end());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::ranges::fill(block->gradients.flat(), kNan);
  std::ranges::fill(block->embeddings.flat(), kNan);
  return gradients;
}

}  // namespace

BlockRun TrainInBlocks(DenseNetwork& network, bool overlapped) {
  BlockRun results;
  std::shared_ptr<BatchBlock> ahead;
  std::shared_ptr<BatchBlock> last;
  const auto take_last = [&] {
    if (last == nullptr) return;
    results.gradients.push_back(TakeGradients(network, std::exchange(last, nullptr)));
  };
  for (uint64_t step = 0; step < kBatches; ++step) {
    const TestBatch batch = BatchOf(step);
    const TestBatch next = BatchOf(step + 1);
    const auto block =
        ahead != nullptr ? std::exchange(ahead, nullptr) : BlockOf(network, batch, true);
    std::vector<float> probabilities(batch.rows);
    const auto meanwhile = [&] {
      if (!overlapped) return;
      ahead = BlockOf(network, next, true);
      network.Load(*ahead, next.dense(), next.labels);
      take_last();
    };
    const auto result = network.ForwardBackwardOn(*block, batch.dense(), batch.labels,
                                                  probabilities, {}, meanwhile);
    REQUIRE(result.ok());
    results.losses.push_back(result->loss);
    results.probabilities.push_back(probabilities);
    REQUIRE(network.ApplyGradients(0.05F).ok());
    last = block;
    // Takes the slot of a batch that has been loaded.
    if (step == 9) results.predictions = PredictOn(network);
    if (!overlapped) take_last();
  }
  take_last();
  const auto copy = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  results.parameters = copy(network.parameters());
  results.state = copy(network.state());
  return results;
}

void CheckSameRuns(const BlockRun& actual, const BlockRun& expected) {
  CHECK(actual.losses == expected.losses);
  REQUIRE(actual.gradients.size() == kBatches);
  for (uint64_t step = 0; step < kBatches; ++step) {
    CAPTURE(step);
    CHECK(SameBits(actual.gradients[step], expected.gradients[step]));
    CHECK(SameBits(actual.probabilities[step], expected.probabilities[step]));
  }
  CHECK(SameBits(actual.predictions, expected.predictions));
  CHECK(SameBits(actual.parameters, expected.parameters));
  CHECK(SameBits(actual.state, expected.state));
}

}  // namespace simurgh::testing
