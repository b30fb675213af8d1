#pragma once

#include <cstdint>
#include <vector>

#include "embedding/row_codec.h"
#include "nn/dense_network.h"

// Training runs on a network's own blocks.
namespace simurgh::testing {

struct BlockRun {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> probabilities;
  std::vector<float> predictions;  // Made in the middle of the run.
  std::vector<float> parameters;
  std::vector<float> state;
};

// What happens during a step, besides its pass.
enum class Overlap {
  kNone,
  kCopies,  // The next batch is loaded, and the last one's gradients are taken.
  // The network applies its gradients and starts the next pass. Then the batch after it is loaded.
  // Gradients are taken after the last step, so no wait for them orders anything.
  kPasses,
};

// Trains a network of EveryLayer and RunOptions. rows: the codec of the batches' rows, pooled by
// the network if it supports rows, else by the test; null: random embeddings.
BlockRun TrainInBlocks(DenseNetwork& network, Overlap overlap, const RowCodec* rows = nullptr);

// Features as wide as that network's embeddings: every pooling except max, lists shared by two
// features, dims of every remainder modulo 4.
std::vector<FeatureRows> EveryPooling();
// Lists of EveryPooling's features.
std::vector<uint32_t> ListsOfEveryPooling();

// Bit by bit.
void CheckSameRuns(const BlockRun& actual, const BlockRun& expected);

}  // namespace simurgh::testing
