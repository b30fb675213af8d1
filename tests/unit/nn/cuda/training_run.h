#pragma once

#include <memory>
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
// EveryLayer on the backend under test, with Adam, whose batches come and go as `wire` says.
// replays: as CreateTestNetwork.
std::unique_ptr<DenseNetwork> WiredNetwork(ComputePrecision compute, const EmbeddingWire& wire,
                                           bool replays = true);

// One of each, with weight decays, clipping and averages here and there.
std::vector<DenseOptimizerConfig> RunOptimizers();

struct TrainingRun {
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> embedding_gradient;  // Of the last step.
  std::vector<float> predictions;
};

// On batches of 96 and, now and then, 33, whose labels follow a rule, so that losses fall. off: by
// what part of themselves weights are off in every pass.
TrainingRun Train(DenseNetwork& network, int steps, float off = 0);
TrainingRun TrainOnCpu(const DenseNetworkOptions& options, int steps,
                       const ModelConfig& model = EveryLayer());

// |actual - expected| / |expected|, of the vectors.
double RelativeError(std::span<const float> actual, std::span<const float> expected);

// Every value within `tolerance` of what is expected, measured against the larger of 1 and it.
void CheckNear(std::span<const float> actual, std::span<const float> expected, double tolerance);

// A run of the CPU backend in f32, and how far one of another backend may be from it.
//
// A sum of n products that is rounded n times, in whatever order, is the exact sum of products that
// are each off by some sqrt(n) u of themselves, u = 2^-24, where roundings go up as often as down
// (Higham, "Accuracy and Stability of Numerical Algorithms", sections 2.8 and 3.1). So a backend's
// pass is the exact one with weights that are off by that, three times: a weight goes through the
// sums of its layer's outputs, of the gradient of its inputs and of its own. Two backends differ by
// twice as much, 6 sqrt(n) u. What that becomes in a run is found by one of which every pass has
// its weights off by as much, up or down at random, while the optimizer has them as they are: a run
// that is computed right differs by no more, or twice that, since roundings are drawn, too.
struct ExpectedRun {
  TrainingRun run;
  TrainingRun off;
};
ExpectedRun ExpectAsOnCpu(const DenseNetworkOptions& options, int steps);

// Losses, weights, state, gradients and predictions, each as a vector, are as near as that.
void CheckSameTraining(const TrainingRun& actual, const ExpectedRun& expected);

bool SameBits(std::span<const float> a, std::span<const float> b);

}  // namespace simurgh::testing
