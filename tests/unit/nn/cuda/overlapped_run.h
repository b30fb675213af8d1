#pragma once

#include <vector>

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
// one's gradients are taken, while one is computed; else one comes after the other.
BlockRun TrainInBlocks(DenseNetwork& network, bool overlapped);

// Bit by bit.
void CheckSameRuns(const BlockRun& actual, const BlockRun& expected);

}  // namespace simurgh::testing
