#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/data/row_codec.h"
#include "simurgh/nn/dense_network.h"

// Training runs on a network's own blocks.
namespace simurgh::testing {

struct BlockRun {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> probabilities;
  std::vector<float> predictions;  // In the middle of it.
  std::vector<float> parameters;
  std::vector<float> state;
};

// Of a network of EveryLayer and RunOptions. overlapped: the next batch is loaded, and the last
// one's gradients are taken, while one is computed; else batches do not overlap. rows: the
// embeddings are those of a batch's rows in this code, pooled by a network that takes rows, else by
// the test.
BlockRun TrainInBlocks(DenseNetwork& network, bool overlapped, const RowCodec* rows = nullptr);

// Whose blocks of embeddings are as wide as that network's: every pooling but max, lists that two
// features share, dims of every remainder by 4.
std::vector<FeatureRows> EveryPooling();
// For them.
std::vector<uint32_t> ListsOfEveryPooling();

// Bit by bit.
void CheckSameRuns(const BlockRun& actual, const BlockRun& expected);

}  // namespace simurgh::testing
