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
// one's gradients are taken, while one is computed; else one comes after the other. rows:
// embeddings are those of a batch's rows in this code, pooled by whoever takes them. row_slots: so
// many of the rows are kept, and used as they were up to two steps later.
BlockRun TrainInBlocks(DenseNetwork& network, bool overlapped, const RowCodec* rows = nullptr,
                       size_t row_slots = 0);

// Whose blocks of embeddings are as wide as that network's: every pooling but max, lists that two
// features share, dims of every remainder by 4.
std::vector<FeatureRows> EveryPooling();
// For them.
std::vector<uint32_t> ListsOfEveryPooling();

// Bit by bit.
void CheckSameRuns(const BlockRun& actual, const BlockRun& expected);

}  // namespace simurgh::testing
