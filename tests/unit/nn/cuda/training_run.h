#pragma once

#include <span>
#include <vector>

#include "simurgh/nn/dense_network.h"
#include "tests/unit/nn/test_models.h"

// Whole training runs, to be compared between backends.
namespace simurgh::testing {

// Every kind of layer, with shared inputs and odd widths. No bias directly before batch norm: its
// gradient is nothing but rounding.
//
// relu: what stands for relu. A value near 0 that is rounded to its other side changes a whole
// gradient, which would hide other errors of bf16.
ModelConfig EveryLayer(const LayerConfig& relu = Relu());
DenseNetworkOptions RunOptions(const DenseOptimizerConfig& optimizer);

// One of each, with weight decays, clipping and averages here and there.
std::vector<DenseOptimizerConfig> RunOptimizers();

struct TrainingRun {
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> embedding_gradient;  // Of the last step.
  std::vector<float> predictions;
};

// On batches of 96 and, now and then, 33, whose labels follow a rule, so that losses fall.
TrainingRun Train(DenseNetwork& network, int steps);
TrainingRun TrainOnCpu(const DenseNetworkOptions& options, int steps,
                       const ModelConfig& model = EveryLayer());

// |actual - expected| / |expected|, of the vectors.
double RelativeError(std::span<const float> actual, std::span<const float> expected);

// Every value within `tolerance` of what is expected, measured against the larger of 1 and it.
void CheckNear(std::span<const float> actual, std::span<const float> expected, double tolerance);
// Losses, weights, state, gradients and predictions of runs in f32.
void CheckSameTraining(const TrainingRun& actual, const TrainingRun& expected);

bool SameBits(std::span<const float> a, std::span<const float> b);

}  // namespace simurgh::testing
